// Factors and solutions against Eigen's, within what rounding may do to either.
#include "ptq/matrices/cholesky.h"

#include <doctest/doctest.h>

#include <Eigen/Cholesky>
#include <random>
#include <vector>

namespace {

using crumb::ptq::Cholesky;
using Eigen::Index;
using Eigen::MatrixXd;

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

MatrixXd drawn(std::mt19937& random, Index rows, Index columns) {
  std::normal_distribution<double> normal;
  return MatrixXd::NullaryExpr(rows, columns, [&](Index, Index) { return normal(random); });
}

std::vector<double> numbers(const RowMatrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

}  // namespace

TEST_CASE(
    "cholesky: factors are Eigen's, and X A is what was asked for, to rounding; threads change no bit") {
  std::mt19937 random(3);
  for (int i = 0; i < 120; ++i) {
    const auto size = static_cast<Index>(1 + random() % (i % 10 == 0 ? 300 : 90)),
               count = static_cast<Index>(random() % 20);
    CAPTURE(size);
    const MatrixXd half = drawn(random, size, size + 8);
    const MatrixXd a = half * half.transpose() + MatrixXd::Identity(size, size);
    std::vector<double> upper = numbers(a);
    for (Index row = 0; row < size; ++row)
      for (Index column = 0; column < row; ++column)
        upper[static_cast<std::size_t>(row * size + column)] = -7;  // unread
    const auto n = static_cast<std::size_t>(size);
    const auto found = Cholesky::of(upper, n, 1);
    const auto again = Cholesky::of(upper, n, 3);
    REQUIRE(found);
    REQUIRE(again);
    const MatrixXd expected = a.llt().matrixU();
    // |U - U'| is at most about n eps cond(A) |U|: the condition number is below the largest eigenvalue,
    // since the least is above 1.
    const double largest = a.trace(), bound = 4 * static_cast<double>(size) * 2.3e-16 * largest;
    for (std::size_t row = 0; row < n; ++row)
      for (std::size_t column = row; column < n; ++column) {
        CHECK(std::abs(found->row(row)[column] -
                       expected(static_cast<Index>(row), static_cast<Index>(column))) <=
              bound * expected.norm());
        CHECK(found->row(row)[column] == again->row(row)[column]);
      }
    const RowMatrix wanted = drawn(random, count, size);
    std::vector<double> x = numbers(wanted);
    found->solve(x.data(), static_cast<std::size_t>(count));
    const RowMatrix product = Eigen::Map<const RowMatrix>(x.data(), count, size) * a;
    if (count > 0) CHECK((product - wanted).cwiseAbs().maxCoeff() <= bound * (1 + wanted.norm()));
    if (count > 1) {  // a row's bits are its own
      std::vector<double> one(wanted.row(1).data(), wanted.row(1).data() + size);
      found->solve(one.data(), 1);
      CHECK(std::equal(one.begin(), one.end(), x.begin() + size));
    }
  }
}

TEST_CASE("cholesky: what is not positive definite has no factors") {
  std::mt19937 random(5);
  for (const Index size : {1, 2, 63, 64, 65, 130}) {
    MatrixXd a = MatrixXd::Identity(size, size);
    CHECK(Cholesky::of(numbers(a), static_cast<std::size_t>(size), 2));
    for (const double bad :
         {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      MatrixXd spoiled = a;
      const auto at = static_cast<Index>(random() % static_cast<std::size_t>(size));
      spoiled(at, at) = bad;
      CHECK_FALSE(Cholesky::of(numbers(spoiled), static_cast<std::size_t>(size), 2));
    }
  }
  CHECK(Cholesky::of({}, 0, 1));
}
