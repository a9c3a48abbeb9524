#include "text/stream_decoder.h"

#include <utility>

#include "text/pipeline/decoders.h"
#include "text/regex/pattern.h"

namespace crumb::text {
namespace {

/// Tokens to text: the last stage.
class Collect : public TokenSink {
 public:
  explicit Collect(std::string& text) : text_(text) {}
  void add(std::string_view part) override {
    text_ += part;
    check_text_length(text_.size());
  }
  void end_token() override {}
  void finish() override {}

 private:
  std::string& text_;
};

}  // namespace

StreamDecoder::StreamDecoder(TextTokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special), text_(std::make_unique<std::string>()) {
  begin();
}

StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

void StreamDecoder::begin() { stages_ = tokenizer_.decoder(std::make_unique<Collect>(*text_)); }

std::string StreamDecoder::push(TokenId id) {
  const std::string* const token = tokenizer_.piece(id);
  if (token == nullptr || (skip_special_ && tokenizer_.is_special(id))) return "";
  stages_->add(*token);
  stages_->end_token();
  return std::exchange(*text_, {});
}

std::string StreamDecoder::finish() {
  stages_->finish();
  begin();
  return std::exchange(*text_, {});
}

}  // namespace crumb::text
