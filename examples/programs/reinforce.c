/* reinforce.c: REINFORCE (R. J. Williams, 1992) learns to balance a pole on a
 * cart.
 *
 *     reinforce [EPISODES]                                  reinforce 400
 *
 * The environment is CartPole-v1 of Gymnasium: the cart is pushed to the left
 * or to the right in each step. An episode ends if the pole falls, if the cart
 * leaves the track, or after 500 steps. Each step gives a reward of 1.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { STEPS = 500 };
static const double GAMMA = 0.99;

struct cart {
    float x, speed, angle, spin;
};

/* Moves the cart with a push for 0.02 s. Returns whether the episode
 * continues. */
static bool push(struct cart *cart, bool right)
{
    double sine = sin(cart->angle), cosine = cos(cart->angle);
    double force =
        (right ? 10.0 : -10.0) + 0.05 * cart->spin * cart->spin * sine;
    double turn = (9.8 * sine - cosine * force / 1.1) /
                  (0.5 * (4.0 / 3 - 0.1 * cosine * cosine / 1.1));
    double gain = force / 1.1 - 0.05 * turn * cosine / 1.1;
    cart->x += 0.02F * cart->speed;
    cart->speed += (float)(0.02 * gain);
    cart->angle += 0.02F * cart->spin;
    cart->spin += (float)(0.02 * turn);
    return fabs(cart->x) < 2.4 && fabs(cart->angle) < 12 * 3.14159265 / 180;
}

/* Plays one episode. Sets log_probs[] to the logarithms of the probabilities of
 * the actions, and returns their number. */
static int play(tn_module *policy, tn_tensor **log_probs)
{
    struct cart cart;
    tn_tensor *start =
        tn_sub_scalar(tn_mul_scalar(tn_rand(tn_dims(4)), 0.1), 0.05);
    tn_tensor_to_array(start, &cart, sizeof cart);
    int step = 0;
    bool up = true;
    while (up && step < STEPS && !tn_error()) {
        tn_tensor *state = tn_tensor_from_array(&cart, TN_F32, tn_dims(4));
        tn_distribution *choice =
            tn_distribution_categorical(NULL, tn_forward(policy, state));
        tn_tensor *action = tn_distribution_sample(choice, TN_SCALAR);
        log_probs[step++] = tn_distribution_log_prob(choice, action);
        up = push(&cart, tn_item_int(action) == 1);
    }
    return step;
}

/* Returns, for each step, the discounted sum of the rewards of that step and
 * all later ones. The sums are normalised to mean 0 and standard deviation
 * 1. */
static tn_tensor *returns(int count)
{
    float sum[STEPS], later = 0;
    for (int step = count - 1; step >= 0; step--)
        sum[step] = later = 1 + (float)GAMMA * later;
    tn_tensor *r = tn_tensor_from_array(sum, TN_F32, tn_dims(count));
    return tn_div(tn_sub(r, tn_mean(r)), tn_add_scalar(tn_std(r), 1e-6));
}

int main(int argc, char **argv)
{
    int episodes = argc > 1 ? atoi(argv[1]) : 400;
    tn_manual_seed(1);
    tn_module *policy = tn_nn_sequential(tn_nn_linear(4, 64), tn_nn_relu(),
                                         tn_nn_linear(64, 2));
    tn_optim *opt = tn_optim_adam(tn_parameters(policy), .lr = 5e-3);
    double mean = 0;
    for (int episode = 1; episode <= episodes && !tn_error(); episode++)
        TN_SCOPE(scope) {
            tn_tensor *log_probs[STEPS];
            int count = play(policy, log_probs);
            tn_tensor *chosen = tn_stack(log_probs, count, 0);
            tn_optim_zero_grad(opt);
            tn_backward(tn_neg(tn_sum(tn_mul(chosen, returns(count)))));
            tn_optim_step(opt);
            mean += (count - mean) / (episode < 20 ? episode : 20);
            if (episode % 50 == 0)
                printf("episode %d: %.0f steps\n", episode, mean);
        }
    if (tn_error())
        return fprintf(stderr, "reinforce: %s\n", tn_error()), 1;
    printf("mean of the last episodes: %.1f steps\n", mean);
}
