#include "text/sentencepiece/model_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <tuple>
#include <unordered_map>

#include "base/files/text.h"
#include "base/utf8.h"
#include "formats/onnx/wire.h"

namespace crumb::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";
constexpr std::size_t kMostPieces = std::size_t{1} << 22;
constexpr std::size_t kLongestPiece = 512;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(std::as_bytes(std::span(bytes))) {}

  Status read(SentencePieceModel& made) {
    WireReader reader(bytes_, {0, bytes_.size()});
    for (WireField field; reader.next(field);) {
      Status status;
      if (field.is(1)) status = read_piece(field.payload, made);
      if (field.is(2)) status = read_trainer(field.payload, made);
      if (field.is(3)) status = read_normalizer(field.payload, made);
      if (!status.ok()) return status;
    }
    return reader.status();
  }

 private:
  Status read_piece(const WireExtent& message, SentencePieceModel& made) {
    WireReader reader(bytes_, message);
    SentencePieceModel::Piece piece;
    for (WireField field; reader.next(field);) {
      if (field.is(1)) piece.text = wire_text(bytes_, field.payload);
      if (field.is(2, WireType::kFixed32)) piece.score = real(field.payload);
      if (field.is(3, WireType::kVarint)) {
        if (field.varint < 1 || field.varint > 6)
          return Failure{"piece " + std::to_string(made.pieces.size()) + " has the unknown type " +
                         std::to_string(field.varint)};
        piece.type = static_cast<SentencePieceModel::Type>(field.varint);
      }
    }
    const auto fail = [&](const std::string& why) {
      return Failure{"piece " + std::to_string(made.pieces.size()) + " " + why};
    };
    if (!is_utf8(piece.text) || piece.text.empty()) return fail("is no text in UTF-8");
    if (piece.text.size() > kLongestPiece) return fail("has " + byte_text(piece.text.size()));
    if (!std::isfinite(piece.score)) return fail("has a score that is not finite");
    if (made.pieces.size() == kMostPieces)
      return Failure{"it has more than " + std::to_string(kMostPieces) + " pieces"};
    made.pieces.push_back(std::move(piece));
    return reader.status();
  }

  Status read_trainer(const WireExtent& message, SentencePieceModel& made) {
    WireReader reader(bytes_, message);
    for (WireField field; reader.next(field);) {
      if (field.type != WireType::kVarint) continue;
      const auto number = static_cast<std::int32_t>(static_cast<std::uint32_t>(field.varint));
      switch (field.number) {
        case 3:
          if (field.varint != 1 && field.varint != 2)
            return Failure{"models of SentencePiece's kind " + std::to_string(field.varint) +
                           " are not supported, only Unigram (1) and BPE (2)"};
          made.kind = static_cast<SentencePieceModel::Kind>(field.varint);
          break;
        case 24:
          if (field.varint != 0)
            return Failure{"spaces behind words (treat_whitespace_as_suffix) are not supported"};
          break;
        case 35: made.byte_fallback = field.varint != 0; break;
        case 40: made.unknown = number; break;
        case 41: made.bos = number; break;
        case 42: made.eos = number; break;
        default: break;
      }
    }
    return reader.status();
  }

  Status read_normalizer(const WireExtent& message, SentencePieceModel& made) {
    WireReader reader(bytes_, message);
    for (WireField field; reader.next(field);) {
      if (field.is(2)) {
        Result<CharsMap> characters = CharsMap::parse(wire_text(bytes_, field.payload));
        if (!characters.ok()) return characters.failure();
        made.characters = std::move(characters.value());
      }
      if (field.is(3, WireType::kVarint)) made.adds_prefix = field.varint != 0;
      if (field.is(4, WireType::kVarint)) made.strips_spaces = field.varint != 0;
      if (field.is(5, WireType::kVarint)) made.marks_spaces = field.varint != 0;
    }
    return reader.status();
  }

  float real(const WireExtent& payload) const {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < sizeof(bits); ++i)
      bits |= std::to_integer<std::uint32_t>(bytes_[payload.begin + i]) << (8 * i);
    return std::bit_cast<float>(bits);
  }

  std::span<const std::byte> bytes_;
};

}  // namespace

Result<SentencePieceModel> SentencePieceModel::parse(std::string_view bytes) {
  SentencePieceModel made;
  const Status status = Reader(bytes).read(made);
  if (!status.ok()) return Failure{"no SentencePiece model that is read: " + status.failure().message};
  if (made.pieces.empty()) return Failure{"no SentencePiece model: it has no pieces"};
  std::size_t unknown = 0;
  for (const Piece& piece : made.pieces) {
    unknown += piece.type == Type::kUnknown;
    if (piece.type == Type::kUnused && made.kind == Kind::kBpe)
      return Failure{"unused pieces (" + quote_text(piece.text) + ") in a BPE model are not supported"};
  }
  if (unknown != 1 || made.unknown < 0 || static_cast<std::size_t>(made.unknown) >= made.pieces.size() ||
      made.pieces[static_cast<std::size_t>(made.unknown)].type != Type::kUnknown)
    return Failure{"no SentencePiece model: unk_id names no unknown piece, or there are several"};
  return made;
}

std::string SentencePieceModel::normalize(std::string_view text) const {
  std::string out;
  bool after_space = strips_spaces;
  while (!text.empty()) {
    std::string_view part;
    if (const auto made = characters.longest(text)) {
      part = made->second;
      text.remove_prefix(made->first);
    } else {
      part = text.substr(0, first_character(text).length);
      text.remove_prefix(part.size());
    }
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    out += part;
    after_space = strips_spaces && part.ends_with(' ');
  }
  if (strips_spaces) out.resize(out.find_last_not_of(' ') + 1);
  if (!marks_spaces) return out;
  std::string marked;
  for (const char c : out) {
    if (c == ' ') {
      marked += kSpace;
    } else {
      marked += c;
    }
  }
  return marked;
}

std::vector<std::pair<std::string, std::string>> SentencePieceModel::merges() const {
  struct Merge {
    float score;
    std::size_t piece, cut;
  };
  std::unordered_map<std::string_view, std::size_t> normal;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].type == Type::kNormal) normal.emplace(pieces[i].text, i);
  std::vector<Merge> found;
  for (const auto& [text, i] : normal) {
    for (std::size_t cut = first_character(text).length; cut < text.size();
         cut += first_character(text.substr(cut)).length) {
      if (normal.contains(text.substr(0, cut)) && normal.contains(text.substr(cut)))
        found.push_back({pieces[i].score, i, cut});
    }
  }
  std::ranges::sort(found, [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.piece, a.cut) < std::tuple(-b.score, b.piece, b.cut);
  });
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(found.size());
  for (const Merge& merge : found) {
    const std::string& text = pieces[merge.piece].text;
    out.emplace_back(text.substr(0, merge.cut), text.substr(merge.cut));
  }
  return out;
}

}  // namespace crumb::text
