// Random numbers: MT19937, as the reference implementation (NumPy's RandomState) and LibTorch's engine draw
// them, and functions in a fixed order. A node draws the same numbers in every run, on every machine.
#include <bit>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "runtime/exact/by_double.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"

namespace crumb::runtime {
namespace {

/// The bits of the seed. Without one the name of the output is the seed (FNV-1a, 32 bits), so that nodes of
/// one graph draw different numbers.
std::uint32_t seed_of(const graph::Node& node) {
  if (node.has("seed")) return std::bit_cast<std::uint32_t>(node.float_or("seed", 0));
  std::uint32_t hash = 0x811c9dc5;
  for (const char letter : node.outputs[0]) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x01000193;
  return hash;
}

class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : engine_(seed) {}

  /// The next number of [0, 1), a multiple of 2^-53.
  double next() {
    const std::uint64_t high = engine_() >> 5, low = engine_() >> 6;
    return static_cast<double>((high << 26) + low) * 0x1p-53;
  }

 private:
  std::mt19937 engine_;
};

/// All first numbers of the pairs are drawn, then all second ones.
void draw_normal(Numbers numbers, float mean, float scale, std::span<double> to) {
  for (double& one : to) one = numbers.next();
  for (double& one : to)
    one = exact::normal_of(one, numbers.next()) * static_cast<double>(scale) + static_cast<double>(mean);
}

void draw_uniform(Numbers numbers, float low, float high, std::span<double> to) {
  const double from = static_cast<double>(low), width = static_cast<double>(high) - from;
  for (double& one : to) one = numbers.next() * width + from;
}

using Draw = void (*)(Numbers, float, float, std::span<double>);

/// What a node draws: by which rule, with which two numbers, in which type.
struct Drawn {
  Draw draw;
  float first, second;
  std::uint32_t seed;
  std::optional<ElementType> type;  ///< else that of the input

  static Drawn of(const NodeFacts& facts, bool is_normal, bool is_like) {
    Drawn made{.draw = is_normal ? draw_normal : draw_uniform,
               .first = facts.float_or(is_normal ? "mean" : "low", 0),
               .second = facts.float_or(is_normal ? "scale" : "high", 1),
               .seed = seed_of(facts.node),
               .type = {}};
    if (facts.node.has("dtype")) {
      made.type = graph::element_type_of(facts.int_or("dtype", 0));
      if (!made.type || !is_drawn(*made.type))
        facts.fail("dtype " + std::to_string(facts.int_or("dtype", 0)) + " is not there");
    } else if (!is_like) {
      made.type = ElementType::kFloat;
    }
    return made;
  }

  static bool is_drawn(ElementType type) {
    return graph::is_float(type) && graph::info(type).bits >= 16 && carrier_of(type) != Carrier::kNone;
  }

  void make(Call& call, const Ints& shape, ElementType made_type) const {
    if (!is_drawn(made_type)) call.fail("cannot draw " + std::string(graph::name_of(made_type)));
    Array numbers(ElementType::kDouble, shape);
    call.spend({numbers.size()});
    draw(Numbers(seed), first, second, numbers.writable<double>());
    call.give(0, cast(numbers, made_type));
  }
};

template <bool IsNormal>
Kernel of_shape(const NodeFacts& facts) {
  const Drawn drawn = Drawn::of(facts, IsNormal, false);
  const auto shape = facts.ints("shape");
  if (!shape) facts.fail("expected a shape, found none");
  return [drawn, shape = *shape](Call& call) { drawn.make(call, shape, *drawn.type); };
}

template <bool IsNormal>
Kernel like(const NodeFacts& facts) {
  const Drawn drawn = Drawn::of(facts, IsNormal, true);
  return [drawn](Call& call) {
    const Array& x = call.in(0);
    drawn.make(call, x.shape(), drawn.type.value_or(x.type()));
  };
}

}  // namespace

std::span<const OperatorRow> random_operators() {
  static constexpr OperatorRow kRows[] = {
      {"RandomNormal", of_shape<true>},
      {"RandomNormalLike", like<true>},
      {"RandomUniform", of_shape<false>},
      {"RandomUniformLike", like<false>},
  };
  return kRows;
}

}  // namespace crumb::runtime
