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

/// What an instruction does with its operands a and b, or with a: in float32, each with the bits of its
/// operator's kernel. The last three are Quantized, Codes and Values (lower/domain.h).
enum class Elementwise : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRelu,
  kLeakyRelu,
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

/// Whether it may have another behind it, and whether its operand may be what another makes: codes are none
/// of a region's registers.
constexpr bool makes_floats(Elementwise what) { return what != Elementwise::kToCodes; }
constexpr bool takes_floats(Elementwise what) { return what != Elementwise::kOfCodes; }

/// What a node is in a region; nothing where it cannot be in one.
std::optional<Elementwise> elementwise_of(const graph::Node& node);

class Program {
 public:
  /// Precondition: of nodes that elementwise_of() knows, each after those whose outputs it takes; the last
  /// one makes what the region makes, and it alone may make codes.
  explicit Program(std::span<const graph::Node> nodes);

  /// The values that the region takes, each once, in the order in which they come.
  const std::vector<std::string>& inputs() const { return inputs_; }

  /// Makes output 0 of a call with those inputs, or does nothing and says false: where one is no float32
  /// (codes: of bytes), and where they are not of one shape but for single numbers and rows along the last
  /// axis (codes: of that shape).
  bool run(Call& call) const;

 private:
  struct Instruction {
    Elementwise what;
    std::size_t a = 0, b = 0;  ///< an input, or behind them the register of an instruction
    float number = 0;          ///< a slope
    integer::CodeScale codes;
    graph::Node node = {};  ///< of a quantizer, its name and output
  };
  struct Operand;
  class Blocks;

  /// How the inputs lie; nothing where they do not fit.
  std::optional<std::vector<Operand>> operands_of(const Call& call, Ints& whole) const;

  std::vector<std::string> inputs_;
  std::vector<bool> are_codes_;             ///< the inputs
  bool is_clear_ = true;                    ///< no input is taken as codes and as floats
  ElementType type_ = ElementType::kFloat;  ///< of what is made
  std::vector<Instruction> instructions_;
};

}  // namespace crumb::runtime
