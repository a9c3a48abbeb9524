// Orthogonal matrices that spread what lies in a few channels over all of them.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace crumb::ptq {

/// H with entries 1 and -1 and H H^T = n I: products of Sylvester's and of Paley's (n = q + 1 for primes q = 3 mod 4, n = 2 q + 2
/// for q = 1 mod 4). Nothing for sizes that these do not reach: odd ones above 1, 4 k where neither k's nor those primes fit.
std::optional<Eigen::MatrixXd> hadamard(std::size_t size);

/// A Hadamard matrix over the root of its size, rows with signs that the seed draws; where there is none, the Q of a drawn matrix.
/// The same for the same size and seed.
Eigen::MatrixXd drawn_rotation(std::size_t size, std::uint64_t seed);

}  // namespace crumb::ptq
