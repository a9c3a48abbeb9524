// A recorded operator while it is converted: its results, and its arguments by their names in the operator's
// schema.
//
// Each file of ops/ holds one family: functions that add nodes for an Op to its Network, and a table of them
// by the operator's name without a trailing "_" (an operator that changes a tensor in place gives the changed
// tensor).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtorch/capture/network.h"

namespace crumb::libtorch {

/// What a recorded value is in the graph: one name, or the names of a list of tensors.
using Converted = std::map<const torch::jit::Value*, Names>;

class Op {
 public:
  Op(const torch::jit::Node* node, const Recording& recording, Network& network, Converted& values,
     bool statistics)
      : net(network), batch_statistics(statistics), node_(node), recording_(recording), values_(values) {}

  std::string kind() const;  ///< "aten::relu", of aten::relu_ too

  bool has(const char* argument) const;  ///< the overload has it, and it is not None
  bool is_tensor(const char* argument) const;
  bool is_zeros(const char* argument,
                std::size_t i) const;  ///< the tensor, or the i-th of the list, is zeros()

  std::string tensor(const char* argument) const;
  Names tensors(const char* argument) const;  ///< of a list; "" where one is None
  std::vector<Seen> seen_all(const char* argument) const;
  Seen seen(const char* argument) const;
  Seen result(std::size_t i = 0) const;
  std::size_t results() const;
  bool wants(std::size_t i) const;      ///< somebody uses the result
  std::size_t list_length() const;      ///< of a result that is a list
  std::vector<Seen> seen_list() const;  ///< its tensors

  Number number(const char* argument) const;         ///< an int
  std::int64_t integer(const char* argument) const;  ///< one that does not follow the batch
  std::int64_t integer_or(const char* argument, std::int64_t otherwise) const;
  std::vector<Number> numbers(const char* argument) const;
  Ints ints(const char* argument) const;
  Ints ints(const char* argument, std::size_t axes) const;  ///< one number stands for every axis
  at::Scalar scalar(const char* argument) const;
  double real(const char* argument) const { return scalar(argument).toDouble(); }
  double real_or(const char* argument, double otherwise) const;
  std::vector<double> reals(const char* argument) const;
  bool flag(const char* argument, bool otherwise = false) const;
  std::string text(const char* argument) const;

  /// A tensor or a number, as a value of that type.
  std::string operand(const char* argument, at::ScalarType type) const;
  /// The tensor `self` (or another) in the type of the result.
  std::string self(const char* argument = "self") const { return operand(argument, result().type); }
  at::ScalarType common_type(const char* a, const char* b) const;  ///< LibTorch's promotion

  /// An axis as a number from 0 on; and several axes: all of the tensor's where the argument is empty or
  /// missing.
  std::int64_t axis(const char* argument, std::int64_t rank) const;
  Ints axes(const char* argument, std::int64_t rank) const;

  void set(std::string value, std::size_t result = 0);
  void set_list(Names values);

  [[noreturn]] void fail(const std::string& why) const;

  Network& net;
  const bool batch_statistics;

 private:
  const torch::jit::Value* find(const char* argument) const;
  const torch::jit::Value* at(const char* argument) const;
  c10::IValue constant(const char* argument) const;
  std::string name_of(const torch::jit::Value* value) const;

  const torch::jit::Node* node_;
  const Recording& recording_;
  Converted& values_;
};

using Convert = void (*)(Op& op);

struct ConversionRow {
  std::string_view kind;
  Convert convert;
};

/// The conversion of the operator; null where it has none.
Convert find_conversion(std::string_view kind);

}  // namespace crumb::libtorch
