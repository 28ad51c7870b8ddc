// libtorch.cpp: workloads of bench/compare in PyTorch's C++ interface, without
// Python: single calls, and training steps of many calls. compare.py compiles this
// program. It describes the arguments and the commands that the program answers.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <torch/torch.h>
#include <torch/version.h>

namespace F = torch::nn::functional;
using torch::Tensor;
using Size = std::vector<int64_t>;
using Call = std::function<void()>;
using Work = std::function<Call(const Size &)>;

// operate(a) or operate(a, b), which may be recorded for a's gradient
template <typename Operate>
static Work one(Operate operate, bool recorded = false)
{
    return [=](const Size &size) -> Call {
        Tensor a = torch::rand(size);
        a.requires_grad_(recorded);
        return [=] { operate(a); };
    };
}

template <typename Operate>
static Work two(Operate operate, bool recorded = false)
{
    return [=](const Size &size) -> Call {
        Tensor a = torch::rand(size), b = torch::rand(size);
        a.requires_grad_(recorded);
        return [=] { operate(a, b); };
    };
}

static Call matmul(const Size &size)
{
    bool one = size.size() == 1;
    Tensor a = torch::rand(one ? size : Size{size[0], size[1]});
    Tensor b = torch::rand(one ? size : Size{size[1], size[2]});
    return [=] { torch::matmul(a, b); };
}

static Call chain(const Size &size)
{
    Tensor a = torch::rand({16}), b = torch::rand({16});
    a.requires_grad_(true);
    int64_t count = size[0];
    return [=]() mutable {
        Tensor y = a;
        for (int64_t i = 0; i < count; i += 2)
            y = y * b + b;
        a.mutable_grad().reset();
        y.sum().backward();
    };
}

static torch::nn::Sequential mlp()
{
    return torch::nn::Sequential(torch::nn::Linear(784, 128),
                                 torch::nn::ReLU(),
                                 torch::nn::Linear(128, 10));
}

static torch::nn::Sequential cnn()
{
    using namespace torch::nn;
    return Sequential(
        Conv2d(Conv2dOptions(1, 16, 3).padding(1)), ReLU(), MaxPool2d(2),
        Conv2d(Conv2dOptions(16, 32, 3).padding(1)), ReLU(), MaxPool2d(2),
        Flatten(), Linear(128, 64), ReLU(), Linear(64, 10));
}

static torch::nn::Sequential cnn28()
{
    using namespace torch::nn;
    return Sequential(Conv2d(1, 32, 3), ReLU(), Conv2d(32, 64, 3), ReLU(),
                      MaxPool2d(2), Flatten(), Linear(9216, 128), ReLU(),
                      Linear(128, 10));
}

static Call training(torch::nn::Sequential net, const Size &input, double lr,
                     double momentum)
{
    Tensor x = torch::rand(input), y = torch::randint(0, 10, {input[0]});
    auto rule = std::make_shared<torch::optim::SGD>(
        net->parameters(), torch::optim::SGDOptions(lr).momentum(momentum));
    return [=]() mutable {
        Tensor loss = F::cross_entropy(net->forward(x), y);
        rule->zero_grad();
        loss.backward();
        rule->step();
    };
}

static Call inference(torch::nn::Sequential net, const Size &input)
{
    Tensor x = torch::rand(input);
    net->eval();
    return [=]() mutable {
        torch::InferenceMode guard;
        net->forward(x);
    };
}

static Tensor add(const Tensor &a, const Tensor &b)
{
    return torch::add(a, b);
}

static Tensor sum(const Tensor &a)
{
    return torch::sum(a);
}

static const std::map<std::string, Work> work = {
    {"dispatch.add", two(add)},
    {"dispatch.add_recorded", two(add, true)},
    {"dispatch.matmul", matmul},
    {"dispatch.relu", one(torch::relu)},
    {"dispatch.sum", one(sum)},
    {"dispatch.chain", chain},
    {"bandwidth.add", two(add)},
    {"bandwidth.mul", two([](auto &a, auto &b) { return a * b; })},
    {"bandwidth.exp", one(torch::exp)},
    {"bandwidth.sum", one(sum)},
    {"matmul.matmul", matmul},
    {"training.mlp",
     [](const Size &s) { return training(mlp(), {s[0], 784}, 0.01, 0); }},
    {"training.cnn",
     [](const Size &s) {
         return training(cnn(), {s[0], 1, 8, 8}, 0.03, 0.9);
     }},
    {"training.cnn28",
     [](const Size &s) {
         return training(cnn28(), {s[0], 1, 28, 28}, 0.01, 0.9);
     }},
    {"inference.mlp",
     [](const Size &s) { return inference(mlp(), {s[0], 784}); }},
    {"inference.cnn28",
     [](const Size &s) { return inference(cnn28(), {s[0], 1, 28, 28}); }},
};

static double measure(const Call &call, int64_t calls)
{
    auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; i++)
        call();
    std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - begin;
    return took.count() / static_cast<double>(calls);
}

int main(int, char **argv)
{
    torch::set_num_threads(std::atoi(argv[1]));
    std::string device = argv[2];
    if (device.rfind("cuda", 0) == 0)
        return 1; // does not run on a GPU
    std::cout << "torch " << TORCH_VERSION << std::endl;
    Call call;
    double took = 0; // nanoseconds per call
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string word, name;
        words >> word;
        if (word == "run") {
            int64_t calls = 1;
            words >> calls;
            if (took < 5e7) // warms up short calls, as compare.c does
                measure(call, calls / 4 + 1);
            took = measure(call, calls);
            std::cout << took << std::endl;
            continue;
        }
        Size size;
        words >> name;
        for (int64_t each; words >> each;)
            size.push_back(each);
        call = nullptr; // frees the tensors of the previous workload
        auto found = work.find(name);
        if (found != work.end()) {
            call = found->second(size);
            took = measure(call, 1);
        }
        std::cout << (call ? "ready" : "none") << std::endl;
    }
}
