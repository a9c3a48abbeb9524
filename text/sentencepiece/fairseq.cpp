#include "text/sentencepiece/fairseq.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/text.h"
#include "base/json/json_file.h"

namespace crumb::text {
namespace {

using Piece = SentencePieceModel::Piece;
using enum SentencePieceModel::Type;

std::string text_of(const ReadFile& read, const std::string& name, const char* key) {
  const auto text = read(name);
  return text ? JsonFile(name, *text).string(key).value_or("") : "";
}

std::vector<Piece> first_pieces(FairseqNumbers numbers) {
  if (numbers == FairseqNumbers::kXlmRoberta)
    return {{"<s>", 0, kControl}, {"<pad>", 0, kControl}, {"</s>", 0, kControl}, {"<unk>", 0, kUnknown}};
  return {{"<s>NOTUSED", 0, kControl},
          {"<pad>", 0, kControl},
          {"</s>NOTUSED", 0, kControl},
          {"<unk>", 0, kUnknown},
          {"<unk>NOTUSED", 0, kControl}};
}

}  // namespace

std::optional<FairseqNumbers> fairseq_numbers(const ReadFile& read, const std::string& folder) {
  std::string name = text_of(read, folder + "tokenizer_config.json", "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name == "XLMRobertaTokenizer") return FairseqNumbers::kXlmRoberta;
  if (name == "CamembertTokenizer") return FairseqNumbers::kCamembert;
  if (!name.empty()) return std::nullopt;
  const std::string type = text_of(read, folder + "config.json", "model_type");
  if (type == "xlm-roberta") return FairseqNumbers::kXlmRoberta;
  if (type == "camembert") return FairseqNumbers::kCamembert;
  return std::nullopt;
}

Status number_as_fairseq(SentencePieceModel& model, FairseqNumbers numbers) {
  constexpr std::array<std::string_view, 3> kFirst = {"<unk>", "<s>", "</s>"};
  for (std::size_t i = 0; i < kFirst.size(); ++i)
    if (model.pieces.size() <= i || model.pieces[i].text != kFirst[i])
      return Failure{"piece " + std::to_string(i) + " is " +
                     (model.pieces.size() <= i ? "missing" : quote_text(model.pieces[i].text)) +
                     "; XLM-RoBERTa's and CamemBERT's models begin with <unk>, <s> and </s>"};
  std::vector<Piece> pieces = first_pieces(numbers);
  const std::vector<Piece> own = pieces;
  const std::ptrdiff_t left_out = numbers == FairseqNumbers::kXlmRoberta ? 3 : 1;
  for (auto piece = model.pieces.begin() + left_out; piece != model.pieces.end(); ++piece) {
    if (piece->text == "<mask>" || std::ranges::find(own, piece->text, &Piece::text) != own.end())
      return Failure{"the piece " + quote_text(piece->text) +
                     " has the name of a token that the model's numbers have beside the pieces"};
    pieces.push_back(std::move(*piece));
  }
  pieces.push_back({"<mask>", 0, kControl});
  model.pieces = std::move(pieces);
  const auto id_of = [&](std::string_view text) {
    return static_cast<std::int32_t>(std::ranges::find(model.pieces, text, &Piece::text) -
                                     model.pieces.begin());
  };
  model.unknown = id_of("<unk>");
  model.bos = id_of("<s>");
  model.eos = id_of("</s>");
  return {};
}

}  // namespace crumb::text
