// The weight quantizers that keep a row of codes within a budget (accumulator.h), one row at a time in
// double. They are the definition that training's implementation is held to.
//
// A row has three parameters: free weights w, t = log2 of its norm g, d = log2 of its scale s. With the
// budget T in units of codes, and codes in [-(2^(M-1) - 1), 2^(M-1) - 1] for M bits:
//
//   A2Q    pre = ||w||_1 / min(g/s, T)       q = clamp(trunc(w / pre))        arXiv:2308.13504, eq. 20
//   A2Q+   the same with v = w - mean(w) for w                                arXiv:2401.10432, eq. 16-19
//   value  s * q
//
// The bound holds because rounding goes toward zero: every |q| is at most the real number that it stands for.
// Float rounding of the norm can still leave one code too many; repair_row() is exact.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crumb {

/// The parameters of one row, t and d.
struct RowParameters {
  double log2_norm = 0;   ///< t
  double log2_scale = 0;  ///< d
};

/// Returns t = log2 ||w||_1 (of the weights as they are, for A2Q+ too) and d = log2(max |w| / (2^(M-1) - 1)).
/// For a row of zeros, 1e-10 takes the part of the norm and of the largest weight.
RowParameters initial_row_parameters(std::span<const double> weights, int weight_bits);

/// Returns the codes of a row. weight_bits >= 2; `budget` is a2q_budget() or a2q_plus_budget().
std::vector<std::int64_t> a2q_codes_ref(std::span<const double> weights, const RowParameters& parameters,
                                        int weight_bits, double budget);
std::vector<std::int64_t> a2q_plus_codes_ref(std::span<const double> weights, const RowParameters& parameters,
                                             int weight_bits, double budget);

/// Projects the row onto the l1 ball: w_i <- sign(w_i) max(|w_i| - theta, 0). theta is 0 where the row is
/// inside, else (u_1 + ... + u_r - radius) / r, with u the sorted |w_i| and r the last j with j u_j > u_1 +
/// ... + u_j - radius (Duchi et al., ICML 2008). Returns theta. radius >= 0.
double project_to_l1_ball(std::span<double> row, double radius);

/// A2Q's initialisation of a row by projection (EP-init, arXiv:2401.10432, section 4.2): projects the weights
/// onto the l1 ball of radius s T, and returns the parameters with t at most the radius's log2.
RowParameters a2q_project(std::span<double> weights, RowParameters parameters, double budget);

/// The same for A2Q+: the row less its mean is projected, so that what the quantizer centres is what was
/// projected.
RowParameters a2q_plus_project(std::span<double> weights, RowParameters parameters, double budget);

}  // namespace crumb
