#include "formats/checkpoint/encoder_limits.h"

#include "formats/checkpoint/bert_config.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/checkpoint/modernbert_config.h"

namespace crumb {

EncoderLimits EncoderLimits::parse(const JsonFile& file) {
  const std::string type = file.string("model_type").value_or("");
  if (DecoderConfig::knows(type)) {
    const DecoderConfig config = DecoderConfig::parse(file);
    return {config.vocab_size, config.max_positions};
  }
  if (type == ModernBertConfig::kModelType) {
    const ModernBertConfig config = ModernBertConfig::parse(file);
    return {config.vocab_size, config.max_positions};
  }
  const BertConfig config = BertConfig::parse(file);
  return {config.vocab_size, config.longest_text()};
}

}  // namespace crumb
