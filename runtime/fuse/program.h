// The nodes of a region as instructions over registers that hold a block of elements each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/integer/code_values.h"
#include "runtime/operator.h"

namespace crumb::runtime {

/// What an instruction computes from its operands a and b, or from a: in float32, with the bits of the
/// operator's kernel. The last three are Quantized, Codes and Values (lower/domain.h).
enum class Elementwise : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRelu,
  kLeakyRelu,
  kClip,
  kHardSigmoid,
  kHardSwish,
  kNegate,
  kAbsolute,
  kReciprocal,
  kSquareRoot,
  kExp,
  kLog,
  kTanh,
  kSigmoid,
  kErf,
  kQuantized,
  kToCodes,
  kOfCodes,
};

/// Whether another instruction may take its result: codes are not held in registers.
constexpr bool makes_floats(Elementwise what) { return what != Elementwise::kToCodes; }
constexpr bool takes_floats(Elementwise what) { return what != Elementwise::kOfCodes; }

/// The instruction of a node; nothing where the node cannot be part of a region.
std::optional<Elementwise> elementwise_of(const graph::Node& node);

class Program {
 public:
  /// Precondition: elementwise_of() knows every node, and each comes after those whose outputs it takes. The
  /// last node makes the region's output; only it may make codes.
  explicit Program(std::span<const graph::Node> nodes);

  /// The values that the region takes, each once, in order of first use.
  const std::vector<std::string>& inputs() const { return inputs_; }

  /// Makes output 0 of a call with those inputs. Does nothing and returns false where an input is not float32
  /// (for codes: bytes), or where the shapes differ by more than single numbers and either rows along the
  /// last axis or a number for each channel, as [1, C, 1, 1] has them (codes have the full shape).
  bool run(Call& call) const;

 private:
  struct Instruction {
    Elementwise what;
    std::size_t a = 0, b = 0;     ///< an input's index; above those, the register of an instruction
    float number = 0, other = 0;  ///< a slope; HardSigmoid's alpha and beta
    /// Clip's limits: an input's index, or kNone; by the node's attributes in `number` and `other`.
    std::size_t least = kNone, most = kNone;
    bool has_attributes = false;
    integer::CodeScale codes;
    graph::Node node = {};  ///< of a quantizer, its name and output
  };
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Operand;
  class Blocks;

  void find_uses();
  static bool fit_each_other(const std::vector<Operand>& operands);
  static std::optional<Operand> broadcast_operand(const Array& x, const Ints& whole);

  /// How the inputs are read; nothing where they do not fit.
  std::optional<std::vector<Operand>> operands_of(const Call& call, Ints& whole) const;

  std::vector<std::string> inputs_;
  std::vector<bool> are_codes_, are_floats_;  ///< whether an input is taken as codes, and as an operand
  std::vector<bool> are_limits_;              ///< and as one of Clip's limits, which is a single number
  bool is_clear_ = true;  ///< whether no input is taken as codes and as floats, and limits are inputs
  ElementType type_ = ElementType::kFloat;  ///< of the output
  std::vector<Instruction> instructions_;
};

}  // namespace crumb::runtime
