// What any float32 execution of a graph can give: bounds of its outputs that hold for every order in which products and
// sums add up, so for every processor, library, layout and number of threads. What two programs compute around a library's
// products is equal to these bounds, and no further; what one operation of IEEE arithmetic makes of equal numbers is equal.
//
// Every value is an interval of float32 numbers; an input is one number. Operators bring intervals to intervals:
//
//   what moves elements, selects them, or is one rounded operation (Add, Mul, Relu, ...): the operator's own kernel at
//     the intervals' ends, nothing added
//   MatMul, Gemm, Conv, and sums and means of K terms: computed in float64, and around it gamma_K sum |a_i b_i|, with
//     gamma_K = K u / (1 - K u) and u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1: any
//     order, fused or not), beside what the operands' own widths make. Where all terms are multiples of one power of two
//     and their sizes add up to 2^24 of it, every order is exact and nothing is added
//   Sigmoid, Tanh, Exp, Erf: in float64, and 4 units in the last place around it (SLEEF's bound is 1, glibc's 2; the
//     logistic function adds a sum and a division to an exponential)
//   quantizers: the kernel at the ends. Where both give the same code, which is nearly everywhere, the result is that
//     one number and all bounds begin anew; else a rounding boundary lies within the error, and the place is near
//
// An operator without a rule is an Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::testing {

struct Enclosure {
  std::vector<at::Tensor> low, high;  ///< of the graph's outputs, float32
  std::int64_t quantized = 0;         ///< values that quantizers made
  /// Of those, where two executions may choose neighbouring codes; places behind such a place count only if they would
  /// be near by themselves.
  std::int64_t near = 0;
};

Enclosure enclose(const graph::Graph& graph, const std::vector<at::Tensor>& inputs);

/// Nothing ("") where at most one quantized value of two hundred, or two in all, is near a boundary; else how many are.
/// Chance explains no more: a sum of K = 100 terms is known to 2 gamma_K of its terms' sizes, 1.2e-5, which is 0.0015 of
/// the steps of an 8-bit quantizer where the sizes add up to its whole range, and a few times that where they cancel.
std::string too_near(const Enclosure& bounds);

/// What is wrong with calling `outputs` the graph's: nothing ("") where all lie within the bounds, not too many quantized
/// values are near a boundary, and more than half of the outputs are known to a thousandth of the greatest.
std::string not_computed_by(const graph::Graph& graph, const std::vector<at::Tensor>& inputs,
                            const std::vector<at::Tensor>& outputs);

}  // namespace crumb::testing
