/* A shared object, but no plugin. */
int tenon_nothing(void);

int tenon_nothing(void)
{
    return 0;
}
