// Moments in two bytes and in one: what is kept is near and right in the mean, the first step is AdamW's, and so is what is
// learned, within what chance explains.
#include "qat/optimize/short_adamw.h"

#include <doctest/doctest.h>
#include <torch/optim/adamw.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <sstream>

#include "base/error.h"

namespace {

using crumb::qat::keep;
using crumb::qat::KeptMoment;
using crumb::qat::MomentType;
using crumb::qat::ShortAdamW;
using crumb::qat::values_of;
using crumb::qat::zero_moment;

constexpr MomentType kTypes[] = {MomentType::kBfloat16, MomentType::kInt8};

at::Tensor noise(std::int64_t count) { return torch::randint(0, 1 << 16, {count}, at::kInt); }

/// Sizes from 2^-30 to 1.
at::Tensor wide(std::int64_t count) { return torch::exp2(-30 * torch::rand({count})); }

std::vector<torch::optim::OptimizerParamGroup> groups_of(const at::Tensor& a, const at::Tensor& b) {
  auto first = std::make_unique<torch::optim::AdamWOptions>(0.01),
       second = std::make_unique<torch::optim::AdamWOptions>(0.02);
  first->weight_decay(0.1);
  second->weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{a}, std::move(first));
  groups.emplace_back(std::vector{b}, std::move(second));
  return groups;
}

TEST_CASE("qat short moments: a kept value is one of its two neighbours, and right in the mean") {
  torch::manual_seed(1);
  for (const MomentType type : kTypes) {
    for (const bool is_signed : {true, false}) {
      for (const std::int64_t count : {1, 255, 256, 257, 5000}) {
        CAPTURE(count);
        CAPTURE(is_signed);
        at::Tensor x = wide(count);
        if (is_signed) x = x * (torch::randint(0, 2, {count}) * 2 - 1);
        x = at::where(torch::rand({count}) < 0.1, 0.0, x).to(at::kFloat);
        KeptMoment kept = zero_moment(type, count, is_signed, at::kCPU);
        // Neighbours are 2^(1/8) apart in 16 and 32 octaves below the block's largest, bfloat16's 2^-7.
        const double step = type == MomentType::kInt8 ? std::exp2(1.0 / 8) - 1 : 0x1p-7;
        const double least = type == MomentType::kBfloat16 ? 0
                             : is_signed                   ? std::exp2(-126.0 / 8)
                                                           : std::exp2(-254.0 / 8);
        const at::Tensor slack = x.abs() * (step + 1e-5) + least * 1.001;
        at::Tensor sum = torch::zeros({count}, at::kDouble);
        constexpr int kTimes = 400;
        for (int i = 0; i < kTimes; ++i) {
          keep(kept, 0, x, noise(count));
          const at::Tensor found = values_of(kept, 0, count);
          CHECK(((found - x).abs() <= slack).all().item<bool>());
          CHECK(at::equal(found == 0, is_signed && type == MomentType::kInt8 ? found == 0 : x == 0));
          sum += found;
        }
        if (!is_signed && type == MomentType::kInt8)
          continue;  // those near zero are lifted, as the next case says
        // A mean of 400 draws between two neighbours: six of its standard deviations, half their distance at most.
        const at::Tensor off = (sum / kTimes - x).abs();
        CHECK((off <= 6 * 0.5 * slack / std::sqrt(kTimes) + x.abs() * 1e-4).all().item<bool>());
      }
    }
  }
}

TEST_CASE("qat short moments: a second moment that is not zero stays so, and others are right in the mean") {
  torch::manual_seed(2);
  const at::Tensor x = torch::tensor({1.0F, 0x1p-20F, 0x1.3p-31F, 0x1p-60F, 0.0F});
  KeptMoment kept = zero_moment(MomentType::kInt8, 5, false, at::kCPU);
  at::Tensor sum = torch::zeros({5}, at::kDouble);
  for (int i = 0; i < 4000; ++i) {
    keep(kept, 0, x, noise(5));
    const at::Tensor found = values_of(kept, 0, 5);
    CHECK(found[3].item<float>() == doctest::Approx(std::exp2(-254.0 / 8)));
    CHECK(found[4].item<float>() == 0);
    sum += found;
  }
  for (int i = 0; i < 3; ++i)
    CHECK(sum[i].item<double>() / 4000 == doctest::Approx(x[i].item<double>()).epsilon(0.005));
}

TEST_CASE("qat short AdamW: the first step is AdamW's") {
  for (const MomentType type : kTypes) {
    torch::manual_seed(3);
    const at::Tensor a = torch::randn({37, 41}), b = torch::randn({9, 300}).t();
    std::vector<at::Tensor> own{a.clone().requires_grad_(), b.clone().requires_grad_()},
        other{a.clone().requires_grad_(), b.clone().requires_grad_()};
    torch::optim::AdamW adamw(groups_of(other[0], other[1]), torch::optim::AdamWOptions());
    ShortAdamW brief(groups_of(own[0], own[1]), torch::optim::AdamWOptions(), type, 7);
    for (std::size_t i = 0; i < 2; ++i) {
      const at::Tensor g = torch::randn(own[i].sizes()) * wide(own[i].numel()).view(own[i].sizes());
      own[i].mutable_grad() = g.clone();
      other[i].mutable_grad() = g.clone();
    }
    adamw.step();
    brief.step();
    for (std::size_t i = 0; i < 2; ++i) CHECK(at::allclose(own[i], other[i], 1e-6, 1e-7));
  }
}

/// A linear regression with noise, every feature of another size: the loss of many steps and of the last ones.
double learned(torch::optim::Optimizer& optimizer, const at::Tensor& w, int seed) {
  torch::manual_seed(seed);
  const at::Tensor sizes = torch::exp2(-6 * torch::rand({64, 1})), aim = torch::randn({64, 8});
  double last = 0;
  for (int step = 0; step < 600; ++step) {
    const at::Tensor x = torch::randn({16, 64}) * sizes.t();
    const at::Tensor loss = (x.matmul(w) - x.matmul(aim)).pow(2).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step >= 500) last += loss.item<double>() / 100;
  }
  return last;
}

TEST_CASE("qat short AdamW: what is learned is what AdamW learns") {
  for (const MomentType type : kTypes) {
    double own = 0, other = 0;
    for (int seed = 0; seed < 8; ++seed) {
      const at::Tensor a = torch::zeros({64, 8}, at::requires_grad()),
                       b = torch::zeros({64, 8}, at::requires_grad());
      torch::optim::AdamW adamw({a}, torch::optim::AdamWOptions(0.02));
      std::vector<torch::optim::OptimizerParamGroup> groups;
      groups.emplace_back(std::vector{b}, std::make_unique<torch::optim::AdamWOptions>(0.02));
      ShortAdamW brief(std::move(groups), torch::optim::AdamWOptions(0.02), type, 5);
      other += learned(adamw, a, seed);
      own += learned(brief, b, seed);
    }
    CAPTURE(own);
    CAPTURE(other);
    CHECK(own < 1.1 * other);
    CHECK(own > 0.9 * other);
  }
}

TEST_CASE("qat short AdamW: what is kept goes on to the same bits, and takes what it says") {
  for (const MomentType type : kTypes) {
    const auto run = [&](int cut) {
      torch::manual_seed(4);
      at::Tensor w = torch::randn({70, 70}).requires_grad_();
      const auto fresh = [&] {
        std::vector<torch::optim::OptimizerParamGroup> groups;
        groups.emplace_back(std::vector{w}, std::make_unique<torch::optim::AdamWOptions>(0.01));
        return std::make_unique<ShortAdamW>(std::move(groups), torch::optim::AdamWOptions(0.01), type, 3);
      };
      auto optimizer = fresh();
      for (int step = 0; step < 20; ++step) {
        if (step == cut) {
          std::stringstream kept;
          torch::serialize::OutputArchive out;
          optimizer->save(out);
          out.save_to(kept);
          optimizer = fresh();
          torch::serialize::InputArchive in;
          in.load_from(kept);
          optimizer->load(in);
          const std::size_t bytes = kept.str().size();
          CHECK(bytes < (type == MomentType::kInt8 ? 3 : 5) * 4900 + 4000);
        }
        w.mutable_grad() = torch::randn({70, 70});
        optimizer->step();
      }
      return w.detach();
    };
    CHECK(at::equal(run(-1), run(11)));
  }
}

}  // namespace
