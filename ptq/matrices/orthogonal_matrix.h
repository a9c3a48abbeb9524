// Orthogonal matrices that spread the content of a few channels over all of them.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace crumb::ptq {

/// Returns H with entries 1 and -1 and H H^T = n I: products of Sylvester's and of Paley's matrices (n = q +
/// 1 for primes q = 3 mod 4, n = 2 q + 2 for q = 1 mod 4). Nothing for other sizes: odd ones above 1, and 4 k
/// where neither k's nor those primes fit.
std::optional<Eigen::MatrixXd> hadamard(std::size_t size);

/// Returns a Hadamard matrix over the square root of its size, with row signs drawn by the seed; where there
/// is none, the Q of a random matrix. The same for the same size and seed.
Eigen::MatrixXd drawn_rotation(std::size_t size, std::uint64_t seed);

}  // namespace crumb::ptq
