#include "runtime/fuse/program.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/processor.h"
#include "base/threads/parallel.h"
#include "graph/not_finite.h"
#include "runtime/exact/functions.h"
#include "runtime/fuse/block_loops.h"
#include "runtime/lower/domain.h"
#include "runtime/ops/code_scale.h"
#include "runtime/ops/movement.h"
#include "runtime/scratch.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kBlock = 1024;                  // elements of a register
constexpr std::size_t kGrain = std::size_t{1} << 14;  // elements that are worth a thread
constexpr std::int64_t kClipsByInputs = 11;           // from this operator set on
constexpr std::size_t kLeastRun = 16;     // elements of a channel that are worth a pass of their own
constexpr std::size_t kMostNumbers = 64;  // instructions that may be found to make single numbers
constexpr std::int64_t kBroadcasts = 7;   // from this operator set on operands broadcast without an attribute

struct Row {
  std::string_view op;
  Elementwise what;
  std::string_view domain = graph::kOnnxDomain;
};
constexpr std::array<Row, 21> kRows = {{
    {"Add", Elementwise::kAdd},
    {"Sub", Elementwise::kSubtract},
    {"Mul", Elementwise::kMultiply},
    {"Div", Elementwise::kDivide},
    {"Relu", Elementwise::kRelu},
    {"LeakyRelu", Elementwise::kLeakyRelu},
    {"Clip", Elementwise::kClip},
    {"HardSigmoid", Elementwise::kHardSigmoid},
    {"HardSwish", Elementwise::kHardSwish},
    {"Neg", Elementwise::kNegate},
    {"Abs", Elementwise::kAbsolute},
    {"Reciprocal", Elementwise::kReciprocal},
    {"Sqrt", Elementwise::kSquareRoot},
    {"Exp", Elementwise::kExp},
    {"Log", Elementwise::kLog},
    {"Tanh", Elementwise::kTanh},
    {"Sigmoid", Elementwise::kSigmoid},
    {"Erf", Elementwise::kErf},
    {"Quantized", Elementwise::kQuantized, kRuntimeDomain},
    {"Codes", Elementwise::kToCodes, kRuntimeDomain},
    {"Values", Elementwise::kOfCodes, kRuntimeDomain},
}};

bool takes_two(Elementwise what) { return what <= Elementwise::kDivide; }

void function(exact::Function which, const BlockSource& a, std::span<float> y) {
  if (!a.is_number) return exact::apply(which, {a.values, y.size()}, y);
  float made = 0;
  exact::apply(which, {a.values, 1}, {&made, 1});
  std::ranges::fill(y, made);
}

/// The fastest loop that this processor has, and the functions of exact/functions.h.
void compute(Elementwise what, const BlockNumbers& numbers, const BlockSource& a, const BlockSource& b,
             std::span<float> y) {
  static const auto loop = may_use(Isa::kAvx2) ? compute_block_avx2 : compute_block_portable;
  switch (what) {
    case Elementwise::kExp: return function(exact::Function::kExp, a, y);
    case Elementwise::kLog: return function(exact::Function::kLog, a, y);
    case Elementwise::kTanh: return function(exact::Function::kTanh, a, y);
    case Elementwise::kSigmoid: return function(exact::Function::kSigmoid, a, y);
    case Elementwise::kErf: return function(exact::Function::kErf, a, y);
    case Elementwise::kSquareRoot:
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::sqrt(a.is_number ? *a.values : a.values[i]);
      return;
    default: return loop(what, numbers, a, b, y);
  }
}

}  // namespace

std::optional<Elementwise> elementwise_of(const graph::Node& node) {
  const auto row = std::ranges::find_if(
      kRows, [&](const Row& one) { return node.op == one.op && node.domain == one.domain; });
  if (row == kRows.end()) return std::nullopt;
  const bool two = takes_two(row->what);
  if (two && node.version < kBroadcasts) return std::nullopt;
  if (row->what == Elementwise::kToCodes && !is_byte(codes_type(node))) return std::nullopt;
  const bool clips = row->what == Elementwise::kClip && node.version >= kClipsByInputs;
  const std::size_t most = clips ? 3 : two ? 2 : 1;
  const bool are_given = std::ranges::none_of(node.inputs, &std::string::empty);
  const bool sound = are_given && node.inputs.size() <= most && node.inputs.size() >= (two ? 2U : 1U) &&
                     node.outputs.size() == 1 && node.has_input(0) && node.has_output(0) &&
                     (!two || node.has_input(1));
  return sound ? std::optional(row->what) : std::nullopt;
}

/// An input of the region.
struct Program::Operand {
  enum class Lies : std::uint8_t { kWhole, kRow, kNumber, kChannel } lies;
  const float* values;
  std::size_t channels = 0, run = 0;    ///< kChannel: how many, and elements that take one of them
  const std::uint8_t* codes = nullptr;  ///< set instead of the floats; kWhole
  bool is_signed = false;
};

Program::Program(std::span<const graph::Node> nodes) {
  const auto made_by = [&](const std::string& value) {
    return std::ranges::find(nodes, value, [](const graph::Node& node) { return node.outputs[0]; }) -
           nodes.begin();
  };
  const auto count = static_cast<std::ptrdiff_t>(nodes.size());
  for (const graph::Node& node : nodes) {
    for (const std::string& value : node.inputs) {
      if (!value.empty() && made_by(value) == count && std::ranges::find(inputs_, value) == inputs_.end())
        inputs_.push_back(value);
    }
  }
  const auto place = [&](const std::string& value) -> std::size_t {
    const auto input = std::ranges::find(inputs_, value);
    if (input != inputs_.end()) return static_cast<std::size_t>(input - inputs_.begin());
    return inputs_.size() + static_cast<std::size_t>(made_by(value));
  };
  for (const graph::Node& node : nodes) {
    Instruction made{.what = *elementwise_of(node), .a = place(node.inputs[0])};
    if (takes_two(made.what)) made.b = place(node.inputs[1]);
    if (made.what == Elementwise::kLeakyRelu) made.number = node.float_or("alpha", 0.01F);
    if (made.what == Elementwise::kHardSigmoid) {
      made.number = node.float_or("alpha", 0.2F);
      made.other = node.float_or("beta", 0.5F);
    }
    if (made.what == Elementwise::kClip && node.version < kClipsByInputs) {
      made.has_attributes = true;
      made.number = node.float_or("min", std::numeric_limits<float>::lowest());
      made.other = node.float_or("max", std::numeric_limits<float>::max());
    } else if (made.what == Elementwise::kClip) {
      if (node.has_input(1)) made.least = place(node.inputs[1]);
      if (node.has_input(2)) made.most = place(node.inputs[2]);
    }
    const bool quantizes = made.what == Elementwise::kToCodes || made.what == Elementwise::kQuantized;
    if (quantizes || !takes_floats(made.what)) made.codes = code_scale_of(node);
    if (quantizes) made.node = {.name = node.name, .outputs = node.outputs};
    if (!makes_floats(made.what)) type_ = codes_type(node);
    instructions_.push_back(made);
  }
  find_uses();
}

void Program::find_uses() {
  are_codes_.resize(inputs_.size());
  are_floats_.resize(inputs_.size());
  are_limits_.resize(inputs_.size());
  for (const Instruction& one : instructions_) {
    for (const std::size_t operand : {one.a, takes_two(one.what) ? one.b : one.a}) {
      if (operand < inputs_.size()) (takes_floats(one.what) ? are_floats_ : are_codes_)[operand] = true;
    }
    for (const std::size_t limit : {one.least, one.most}) {
      if (limit == kNone) continue;
      if (limit < inputs_.size())
        are_limits_[limit] = true;
      else
        is_clear_ = false;
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    is_clear_ = is_clear_ && !(are_codes_[i] && (are_floats_[i] || are_limits_[i]));
}

/// A number for each channel: 1 on all axes but neighbours, on which the shapes are the same.
std::optional<Program::Operand> Program::broadcast_operand(const Array& x, const Ints& whole) {
  const std::size_t rank = whole.size(), own = x.shape().size();
  if (own > rank) return std::nullopt;
  const auto size = [&](std::size_t axis) { return axis + own < rank ? 1 : x.shape()[axis + own - rank]; };
  std::size_t end = rank, run = 1;
  while (end > 0 && size(end - 1) == 1) run *= static_cast<std::size_t>(whole[--end]);
  std::size_t begin = end;
  while (begin > 0 && size(begin - 1) == whole[begin - 1]) --begin;
  for (std::size_t axis = 0; axis < begin; ++axis) {
    if (size(axis) != 1) return std::nullopt;
  }
  if (run < kLeastRun || x.size() == 0) return std::nullopt;
  return Operand{
      .lies = Operand::Lies::kChannel, .values = x.values<float>().data(), .channels = x.size(), .run = run};
}

/// Whether a block of elements has one number of each channel, and there are no rows then.
bool Program::fit_each_other(const std::vector<Operand>& operands) {
  std::size_t run = 0;
  for (const Operand& x : operands) {
    if (x.lies != Operand::Lies::kChannel) continue;
    if (run != 0 && x.run != run) return false;
    run = x.run;
  }
  return run == 0 ||
         std::ranges::none_of(operands, [](const Operand& x) { return x.lies == Operand::Lies::kRow; });
}

std::optional<std::vector<Program::Operand>> Program::operands_of(const Call& call, Ints& whole) const {
  if (!is_clear_) return std::nullopt;
  std::size_t largest = 0;
  while (largest < inputs_.size() && !are_codes_[largest] && !are_floats_[largest]) ++largest;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    const Array& x = call.in(i);
    if (are_limits_[i] && x.size() != 1) return std::nullopt;
    if (are_codes_[i] ? !is_byte(x.type()) : x.type() != ElementType::kFloat) return std::nullopt;
    if (!are_codes_[i] && !are_floats_[i]) continue;
    const bool more = x.size() > call.in(largest).size() ||
                      (x.size() == call.in(largest).size() && x.rank() > call.in(largest).rank());
    if (more) largest = i;
  }
  if (call.in(largest).size() == 0) return std::nullopt;  // [1, 0] and [3, 0] look alike below
  whole = call.in(largest).shape();
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    const Array& x = call.in(i);
    if (are_codes_[i]) {
      if (x.shape() != whole) return std::nullopt;
      operands.push_back({.lies = Operand::Lies::kWhole,
                          .values = nullptr,
                          .codes = reinterpret_cast<const std::uint8_t*>(x.data()),
                          .is_signed = x.carrier() == Carrier::kInt8});
      continue;
    }
    const float* const values = x.values<float>().data();
    if (!are_floats_[i]) {
      operands.push_back({Operand::Lies::kNumber, values});
      continue;
    }
    const bool is_row = x.rank() > 0 && !whole.empty() && x.dim(x.rank() - 1) == whole.back() &&
                        static_cast<std::int64_t>(x.size()) == whole.back();
    if (x.shape() == whole) {
      operands.push_back({Operand::Lies::kWhole, values});
    } else if (x.rank() <= static_cast<std::int64_t>(whole.size()) && x.size() == 1) {
      operands.push_back({Operand::Lies::kNumber, values});
    } else if (x.rank() <= static_cast<std::int64_t>(whole.size()) && is_row) {
      operands.push_back({Operand::Lies::kRow, values});
    } else {
      const auto broadcast = broadcast_operand(x, whole);
      if (!broadcast) return std::nullopt;
      operands.push_back(*broadcast);
    }
  }
  return fit_each_other(operands) ? std::optional(operands) : std::nullopt;
}

/// The passes over a call's values, in registers, which begin with a row where rows fit into them.
class Program::Blocks {
 public:
  /// `out`: floats, or codes where the program makes codes.
  Blocks(const Program& program, std::vector<Operand> operands, const Ints& whole, std::byte* out)
      : program_(program), operands_(std::move(operands)), out_(out), beyond_(program.instructions_.size()) {
    const bool has_rows =
        std::ranges::any_of(operands_, [](const Operand& x) { return x.lies == Operand::Lies::kRow; });
    for (const Operand& x : operands_) run_ = std::max(run_, x.run);
    if (!has_rows) return;
    width_ = static_cast<std::size_t>(whole.back());
    if (width_ >= kBlock) return;
    block_ = kBlock / width_ * width_;
    for (Operand& x : operands_) {
      if (x.lies != Operand::Lies::kRow) continue;
      std::vector<float>& repeated = repeated_.emplace_back();
      for (std::size_t at = 0; at < block_; at += width_)
        repeated.insert(repeated.end(), x.values, x.values + width_);
      x.values = repeated.data();
    }
    width_ = block_;
  }

  std::size_t grain() const {
    const std::size_t unit = width_ > 0 ? width_ : block_;  // pieces begin where rows do
    return std::max<std::size_t>(kGrain / unit, 1) * unit;
  }

  /// For the run's own thread, after all passes.
  void note_beyond() const {
    for (std::size_t i = 0; i < beyond_.size(); ++i)
      graph::note_not_finite(program_.instructions_[i].node, beyond_[i]);
  }

  void run(std::size_t begin, std::size_t end) const {
    thread_local Scratch scratch;
    float* const registers = scratch.of(program_.instructions_.size() * kBlock);
    for (std::size_t at = begin; at < end;) {
      const std::size_t column = width_ > 0 ? at % width_ : 0;
      const std::size_t unit = width_ > 0 ? width_ : run_;
      const std::size_t until = unit > 0 ? std::min(end, at - at % unit + unit) : end;
      const std::size_t count = std::min(block_, until - at);
      block(at, column, count, registers);
      at += count;
    }
  }

 private:
  void block(std::size_t at, std::size_t column, std::size_t count, float* registers) const {
    const std::size_t inputs = operands_.size(), instructions = program_.instructions_.size();
    const auto source = [&](std::size_t place, const auto& are_numbers) -> BlockSource {
      if (place >= inputs) {
        const std::size_t made = place - inputs;
        return {registers + made * kBlock, made < kMostNumbers && are_numbers[made]};
      }
      const Operand& x = operands_[place];
      if (x.codes) return {nullptr, true};  // only instructions with one operand take codes
      switch (x.lies) {
        case Operand::Lies::kWhole: return {x.values + at, false};
        case Operand::Lies::kRow: return {x.values + column, false};
        case Operand::Lies::kChannel: return {x.values + at / x.run % x.channels, true};
        case Operand::Lies::kNumber: break;
      }
      return {x.values, true};
    };
    std::array<bool, kMostNumbers> are_numbers{};  // registers of which only the first element is made
    for (std::size_t i = 0; i < instructions; ++i) {
      const Instruction& one = program_.instructions_[i];
      if (one.what == Elementwise::kToCodes) {
        const BlockSource x = source(one.a, are_numbers);
        if (!to_codes(one.codes, x, count, reinterpret_cast<std::uint8_t*>(out_) + at))
          count_beyond(i, x, count);
        continue;
      }
      const bool is_last = i + 1 == instructions;
      float* const y = is_last ? reinterpret_cast<float*>(out_) + at : registers + i * kBlock;
      if (one.what == Elementwise::kQuantized) {
        const BlockSource x = source(one.a, are_numbers);
        if (!quantized(one.codes, x, count, y)) count_beyond(i, x, count);
        continue;
      }
      if (one.what == Elementwise::kOfCodes) {
        integer::CodeScale by = one.codes;
        by.is_signed = operands_[one.a].is_signed;
        integer::values_of(by, operands_[one.a].codes + at, count, y);
        continue;
      }
      const auto limit = [&](std::size_t place, const float& number) {
        return one.has_attributes ? &number : place == kNone ? nullptr : operands_[place].values;
      };
      const BlockSource a = source(one.a, are_numbers), b = source(one.b, are_numbers);
      const bool is_number =
          !is_last && i < kMostNumbers && a.is_number && (b.is_number || !takes_two(one.what));
      if (is_number) are_numbers[i] = true;
      compute(one.what, {one.number, one.other, limit(one.least, one.number), limit(one.most, one.other)}, a,
              b, {y, is_number ? 1 : count});
    }
  }

  static bool to_codes(const integer::CodeScale& by, const BlockSource& x, std::size_t count,
                       std::uint8_t* codes) {
    if (!x.is_number) return integer::codes_of(by, x.values, count, codes);
    const bool finite = integer::codes_of(by, x.values, 1, codes);
    std::fill_n(codes, count, *codes);
    return finite;
  }

  static bool quantized(const integer::CodeScale& by, const BlockSource& x, std::size_t count, float* y) {
    if (!x.is_number) return integer::quantized_of(by, x.values, count, y);
    const bool finite = integer::quantized_of(by, x.values, 1, y);
    std::fill_n(y, count, *y);
    return finite;
  }

  /// Called where there are some.
  void count_beyond(std::size_t instruction, const BlockSource& x, std::size_t count) const {
    beyond_[instruction] += x.is_number ? count : graph::count_not_finite({x.values, count});
  }

  const Program& program_;
  std::vector<Operand> operands_;
  std::byte* out_;
  std::size_t run_ = 0;    ///< elements of a channel; 0: there are none
  std::size_t width_ = 0;  ///< elements after which rows begin again; 0: there are no rows
  std::size_t block_ = kBlock;
  std::vector<std::vector<float>> repeated_;
  mutable std::vector<std::atomic<std::uint64_t>>
      beyond_;  ///< values that reached quantizers and are not finite
};

bool Program::run(Call& call) const {
  Ints whole;
  auto operands = operands_of(call, whole);
  if (!operands) return false;
  std::size_t over = 0;  // the input whose memory the output takes where it may
  for (std::size_t i = call.inputs(); i-- > 0;) {
    if (call.may_reuse(i, type_, whole)) over = i;
  }
  Array& made = call.make_over(0, over, type_, whole);
  const Blocks blocks(*this, std::move(*operands), whole, made.writable_data());
  parallel_for(made.size(), blocks.grain(), call.threads(),
               [&](std::size_t begin, std::size_t end) { blocks.run(begin, end); });
  blocks.note_beyond();
  return true;
}

}  // namespace crumb::runtime
