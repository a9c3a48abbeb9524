#include "models/tied_head.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/text.h"
#include "formats/checkpoint/decoder_config.h"

namespace crumb::models {
namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr std::size_t kPiece = std::size_t{1} << 22;  // whole elements of every type

bool is_tied(const Checkpoint& checkpoint) {
  const ModelFile* const config = checkpoint.find_file("config.json");
  if (!config) return false;
  const std::string text(reinterpret_cast<const char*>(config->bytes.data()), config->bytes.size());
  try {
    return DecoderConfig::parse(JsonFile("config.json", text)).tied;
  } catch (const Error&) {  // no decoder that is known here
    return false;
  }
}

bool are_alike(const Checkpoint& checkpoint, const TensorEntry& a, const TensorEntry& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.bytes != b.bytes) return false;
  TensorReader left = checkpoint.reader(a), right = checkpoint.reader(b);
  std::vector<std::byte> one(kPiece), other(kPiece);
  for (std::uint64_t at = 0; at < a.bytes; at += kPiece) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, a.bytes - at));
    left.read({one.data(), size}).take();
    right.read({other.data(), size}).take();
    if (!std::equal(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(size), other.begin()))
      return false;
  }
  return true;
}

}  // namespace

void expect_tied_head(const Checkpoint& checkpoint) {
  const TensorEntry *const head = checkpoint.find(kHead), *const embedding = checkpoint.find(kEmbedding);
  if (!head || !embedding || !is_tied(checkpoint) || are_alike(checkpoint, *head, *embedding)) return;
  throw Error(
      "config.json has tie_word_embeddings, and " + quote_text(kHead) + " has other values than " +
      quote_text(kEmbedding) +
      ": which of them makes the logits depends on who reads them (transformers before version 5 takes "
      "the embeddings, from 5 on the head); set tie_word_embeddings to false, or take the tensor out");
}

}  // namespace crumb::models
