#include "base/json/numbers.h"

#include <cmath>
#include <cstdint>

namespace crumb {

nlohmann::ordered_json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

nlohmann::ordered_json json_amount(double value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const bool whole = std::trunc(value) == value && std::fabs(value) < kExact;
  return whole ? nlohmann::ordered_json(static_cast<std::int64_t>(value)) : nlohmann::ordered_json(value);
}

nlohmann::ordered_json json_sqnr(double sqnr_db) {
  return std::isinf(sqnr_db) && sqnr_db > 0 ? nlohmann::ordered_json(nullptr) : json_number(sqnr_db);
}

}  // namespace crumb
