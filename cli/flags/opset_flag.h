// The flag --opset, for every verb that writes ONNX.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/files/text.h"
#include "base/text/number.h"
#include "cli/flags/flag_group.h"

namespace crumb::cli {

/// Adds --opset. `opset` stays 0 where the flag is not given: 13, or the least that the operators need.
inline void add_opset_flag(CLI::App& verb, std::int64_t& opset, const std::string& help) {
  verb.add_option("--opset", opset, help)
      ->type_name("OPSET")
      ->group(kOutputFlags)
      ->check([](const std::string& text) {
        if (parse_number<std::int64_t>(text).value_or(0) >= 1) return std::string();
        return "expected an operator set of ONNX, as in 13, found " + quote_text(text);
      });
}

}  // namespace crumb::cli
