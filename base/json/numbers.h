// Numbers as JSON can say them.
#pragma once

#include <nlohmann/json.hpp>

namespace crumb {

/// A number as JSON can say it: "inf", "-inf" and "nan" as strings.
nlohmann::ordered_json json_number(double value);

/// SQNR in dB; null where it is infinite (nothing was lost), "-inf" where there was no signal, "nan".
nlohmann::ordered_json json_sqnr(double sqnr_db);

/// A whole number as one.
nlohmann::ordered_json json_amount(double value);

}  // namespace crumb
