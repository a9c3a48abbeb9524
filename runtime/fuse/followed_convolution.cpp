#include "runtime/fuse/followed_convolution.h"

#include <algorithm>
#include <limits>

#include "runtime/ops/convolution.h"

namespace crumb::runtime {
namespace {

constexpr std::int64_t kLimitsAsInputs = 11;  // of Clip, from this operator set on
constexpr std::int64_t kSlopesBroadcast = 7;  // of PRelu, from this operator set on

/// Whether a slope is a number for each channel of an array of so many axes, or one number.
bool are_of_channels(const Array& slopes, std::int64_t rank, std::int64_t channels) {
  if (slopes.rank() > rank) return false;
  for (std::int64_t i = 0; i < slopes.rank(); ++i) {
    const bool is_channel = rank - slopes.rank() + i == 1;
    if (slopes.dim(i) != 1 && !(is_channel && slopes.dim(i) == channels)) return false;
  }
  return true;
}

}  // namespace

bool FollowedConvolution::may_follow(const graph::Node& convolution, const graph::Node& follower) {
  if (follower.domain != graph::kOnnxDomain || follower.inputs.empty() || follower.outputs.size() != 1 ||
      !follower.has_output(0) || !is_convolution(convolution) || convolution.outputs.size() != 1)
    return false;
  const auto takes = std::ranges::count(follower.inputs, convolution.outputs[0]);
  if (takes != 1 || follower.inputs[0] != convolution.outputs[0]) return false;
  if (follower.op == "PRelu") return follower.inputs.size() == 2 && follower.version >= kSlopesBroadcast;
  if (follower.op == "Clip") return follower.inputs.size() <= (follower.version >= kLimitsAsInputs ? 3U : 1U);
  return (follower.op == "Relu" || follower.op == "LeakyRelu") && follower.inputs.size() == 1;
}

FollowedConvolution::FollowedConvolution(graph::Node convolution, Kernel own, graph::Node follower,
                                         Kernel then)
    : convolution_(std::move(convolution)),
      follower_(std::move(follower)),
      slope_(follower_.float_or("alpha", 0.01F)),
      own_(std::move(own)),
      then_(std::move(then)) {}

std::optional<exact::TermsThen> FollowedConvolution::slopes_of(const Call& call) const {
  const std::size_t first = convolution_.inputs.size();
  const Array& slopes = call.in(first);
  const Array& w = call.in(1);
  if (slopes.type() != ElementType::kFloat || slopes.size() == 0 || w.rank() == 0 ||
      !are_of_channels(slopes, call.in(0).rank(), w.dim(0)))
    return std::nullopt;
  return exact::TermsThen{.what = exact::TermsThen::What::kSlope,
                          .slopes = slopes.values<float>().data(),
                          .slopes_step = slopes.size() == 1 ? 0U : 1U};
}

std::optional<exact::TermsThen> FollowedConvolution::then_of(const Call& call) const {
  if (call.in(0).type() != ElementType::kFloat) return std::nullopt;
  if (follower_.op == "PRelu") return slopes_of(call);
  exact::TermsThen then{.what = exact::TermsThen::What::kClip};
  if (follower_.op == "Relu") {
    then.least = 0;
  } else if (follower_.op == "LeakyRelu") {
    then = {.what = exact::TermsThen::What::kSlope, .slopes = &slope_};
  } else if (follower_.version < kLimitsAsInputs) {
    then.least = follower_.float_or("min", std::numeric_limits<float>::lowest());
    then.most = follower_.float_or("max", std::numeric_limits<float>::max());
  } else {
    const std::size_t first = convolution_.inputs.size();
    for (const std::size_t i : {first, first + 1}) {
      if (!call.has(i)) continue;
      const Array& limit = call.in(i);
      if (limit.type() != ElementType::kFloat || limit.size() != 1) return std::nullopt;
      (i == first ? then.least : then.most) = limit.values<float>()[0];
    }
  }
  return then;
}

void FollowedConvolution::operator()(Call& call) const {
  const std::optional<exact::TermsThen> then = then_of(call);
  std::vector<Array> values(call.inputs());
  std::vector<Array*> arguments(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!call.has(i)) continue;
    values[i] = call.take(i);
    arguments[i] = &values[i];
  }
  const std::size_t own = convolution_.inputs.size();
  const std::vector<char> kept(values.size() + 1, 0);
  std::vector<Array> made(1);
  Call first(convolution_, std::span(arguments).first(own), kept, made, call.threads());
  if (then) {
    convolve_then(first, *then);
    return call.give(0, std::move(made[0]));
  }
  own_(first);
  if (made[0].alone()) made[0].round();
  std::vector<Array*> others(arguments.begin() + static_cast<std::ptrdiff_t>(own), arguments.end());
  others.insert(others.begin(), made.data());
  std::vector<char> last(others.size(), 0);
  last[0] = 1;
  std::vector<Array> result(1);
  Call second(follower_, others, last, result, call.threads());
  then_(second);
  call.give(0, std::move(result[0]));
}

}  // namespace crumb::runtime
