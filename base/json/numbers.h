// Numbers in forms that JSON has.
#pragma once

#include <nlohmann/json.hpp>

namespace crumb {

/// Returns the number, or "inf", "-inf" and "nan" as strings.
nlohmann::ordered_json json_number(double value);

/// Returns SQNR in dB; null where it is infinite (nothing was lost), "-inf" where there was no signal, or
/// "nan".
nlohmann::ordered_json json_sqnr(double sqnr_db);

/// Returns the number, without a decimal point where it is whole.
nlohmann::ordered_json json_amount(double value);

}  // namespace crumb
