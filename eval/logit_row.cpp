#include "eval/logit_row.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace crumb::eval {

LogitRow::LogitRow(std::span<const float> of) : logits(of) {
  float most = logits[0];
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) throw Error("the logit of token " + std::to_string(i) + " is not a number");
    if (logits[i] > most) {
      most = logits[i];
      largest = i;
    }
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  log_sum = most + std::log(sum);
}

double divergence(const LogitRow& from, const LogitRow& to) {
  double sum = 0;
  for (std::size_t i = 0; i < from.logits.size(); ++i) {
    const double log_p = from.log_probability(i), p = std::exp(log_p);
    if (p > 0) sum += p * (log_p - to.log_probability(i));
  }
  return std::max(sum, 0.0);  // what rounding makes negative
}

}  // namespace crumb::eval
