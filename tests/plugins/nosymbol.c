/* A shared object that is not a plugin. */
int tenon_nothing(void);

int tenon_nothing(void)
{
    return 0;
}
