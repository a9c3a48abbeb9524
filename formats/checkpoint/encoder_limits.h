// What a sentence encoder's tokenizer must keep to, whatever the architecture of its transformer.
#pragma once

#include <cstddef>
#include <string>

#include "base/json/json_file.h"

namespace crumb {

struct EncoderLimits {
  std::size_t vocab_size = 0;
  std::size_t longest_text = 0;  ///< in tokens, those around the text among them

  /// Of a transformer's config.json. Throws Error as the configuration's own parser does, and where no parser
  /// knows the "model_type".
  static EncoderLimits parse(const JsonFile& config);
};

}  // namespace crumb
