// Which tokens are around a text, where tokenizer_config.json says so.
#pragma once

#include <optional>

#include "text/pipeline/steps.h"
#include "text/wordpiece.h"

namespace crumb::text {

/// Applies what tokenizer_config.json changes in the tokens around a text (add_bos_token, add_eos_token; for
/// some classes whatever else says, docs/text.md). `has_json`: a tokenizer.json, or what stands for it, says
/// them already. Returns whether the file says something of them. Throws Error as JsonPlace does.
bool configure_frame(const JsonPlace& config, bool has_json, const std::optional<TokenId>& bos,
                     const std::optional<TokenId>& eos, Frame& frame);

}  // namespace crumb::text
