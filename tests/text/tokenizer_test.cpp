#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "base/error.h"
#include "tests/support/testing.h"

namespace crumb::text {
namespace {

using Files = std::map<std::string, std::string, std::less<>>;
using Ids = std::vector<TokenId>;

Tokenizer load(const Files& files) {
  return Tokenizer::load([&](std::string_view name) -> std::optional<std::string> {
    const auto file = files.find(name);
    return file == files.end() ? std::nullopt : std::optional(file->second);
  });
}

std::string error_of(const Files& files) {
  try {
    load(files);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string kVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\n##dish\nfox\ncafe\ncaf\u00e9\n!\nRed\n";

TEST_CASE("words are covered from the front by the longest pieces") {
  const Tokenizer tokenizer = load({{"vocab.txt", kVocab}});
  CHECK(tokenizer.encode("red fox") == Ids{2, 5, 7, 3});
  CHECK(tokenizer.encode("Reddish!Fox") == Ids{2, 5, 6, 10, 7, 3});
  CHECK(tokenizer.encode("dish reddishes") == Ids{2, 1, 1, 3});
  CHECK(tokenizer.encode("") == Ids{2, 3});
  CHECK(tokenizer.encode(" \t\u3000 ") == Ids{2, 3});
  CHECK(tokenizer.encode("r\xFF\u200b\u00ade\u0301d") ==
        Ids{2, 5, 3});  // dropped: ill-formed, format, accent
}

TEST_CASE("special tokens in the text are tokens, in their own spelling only") {
  const Tokenizer tokenizer = load({{"vocab.txt", kVocab}});
  CHECK(tokenizer.encode("red[MASK]fox") == Ids{2, 5, 4, 7, 3});
  CHECK(tokenizer.encode("[CLS][SEP]") == Ids{2, 2, 3, 3});
  CHECK(tokenizer.encode("[mask]") == Ids{2, 1, 1, 1, 3});
}

TEST_CASE("the files' settings: lower case, accents, prefix, longest word") {
  CHECK(load({{"vocab.txt", kVocab}, {"tokenizer_config.json", R"({"do_lower_case": false})"}})
            .encode("Red red Caf\u00e9 caf\u00e9") == Ids{2, 11, 5, 1, 9, 3});
  CHECK(load({{"vocab.txt", kVocab}, {"tokenizer_config.json", R"({"strip_accents": false})"}})
            .encode("CAF\u00c9") == Ids{2, 9, 3});
  CHECK(load({{"vocab.txt", kVocab}}).encode("CAF\u00c9") == Ids{2, 8, 3});
  CHECK(load({{"vocab.txt", kVocab},
              {"tokenizer_config.json", R"({"do_lower_case": false})"},
              {"sentence_bert_config.json", R"({"do_lower_case": true})"}})
            .encode("CAF\u00c9") == Ids{2, 9, 3});
  const std::string json =
      R"({"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "_",
      "max_input_chars_per_word": 4, "vocab": {"?": 0, "[CLS]": 1, "[SEP]": 2, "ab": 3, "_cd": 4}},
      "added_tokens": [{"id": 9, "content": "<x>", "lstrip": true, "rstrip": true, "special": false}]})";
  const Tokenizer tokenizer = load({{"tokenizer.json", json}});
  CHECK(tokenizer.encode("abcd abcdc ab <X> ab") == Ids{1, 3, 4, 0, 3, 9, 3, 2});
  CHECK(tokenizer.largest_id() == 9);
}

TEST_CASE("words of more than 100 characters are unknown") {
  const std::string vocab = "[UNK]\n[CLS]\n[SEP]\nx\n##x\n";
  const Tokenizer tokenizer = load({{"vocab.txt", vocab}});
  CHECK(tokenizer.encode(std::string(100, 'x')).size() == 102);
  CHECK(tokenizer.encode(std::string(101, 'x')) == Ids{1, 0, 2});
}

TEST_CASE("a word of any length takes time in proportion, where the files allow it") {
  const Tokenizer tokenizer = load({{"tokenizer.json", R"({"model": {"max_input_chars_per_word": 1000000000,
      "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "x": 3, "##x": 4, "##xxx": 5}}})"}});
  const size_t threes = 100000;  // hours, were every rest of the word looked up
  Ids expected = {1, 3};
  expected.resize(2 + threes, 5);
  expected.insert(expected.end(), {4, 4, 2});
  CHECK(tokenizer.encode(std::string(1 + 3 * threes + 2, 'x')) == expected);
}

TEST_CASE("texts are cut to the length that sentence_bert_config.json says") {
  Files files = {{"vocab.txt", kVocab},
                 {"tokenizer_config.json", R"({"model_max_length": 4})"},
                 {"sentence_bert_config.json", R"({"max_seq_length": 5})"}};
  CHECK(load(files).encode("red fox red fox red") == Ids{2, 5, 7, 5, 3});
  files.erase("sentence_bert_config.json");
  CHECK(load(files).encode("red fox red fox red") == Ids{2, 5, 7, 3});
  CHECK(load(files).encode("[MASK][MASK][MASK]") == Ids{2, 4, 4, 3});
  files["tokenizer_config.json"] = R"({"model_max_length": 1000000000000000019884624838656})";
  Tokenizer tokenizer = load(files);
  CHECK_FALSE(tokenizer.max_length());
  tokenizer.limit_length(3);
  CHECK(tokenizer.encode("reddish") == Ids{2, 5, 3});
}

TEST_CASE("odd vocabularies and files give errors that name them") {
  const auto has = [](const std::string& message, const std::string& part) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  };
  has(error_of({}), "no vocabulary");
  has(error_of({{"vocab.txt", ""}}), "vocab.txt: there is no token");
  has(error_of({{"vocab.txt", "[UNK]\n\xFF\n"}}), "vocab.txt: line 2 is not UTF-8");
  has(error_of({{"vocab.txt", "a\nb\n"}}), "no \"[UNK]\"");
  has(error_of({{"vocab.txt", "[UNK]\n[CLS]\n"}}), "no \"[SEP]\", which is the tokenizer's sep_token");
  has(error_of({{"vocab.txt", kVocab}, {"tokenizer_config.json", "{"}}), "tokenizer_config.json");
  has(error_of({{"vocab.txt", kVocab}, {"tokenizer_config.json", "[]"}}), "expected a JSON object");
  has(error_of({{"vocab.txt", kVocab}, {"tokenizer_config.json", R"({"do_lower_case": 1})"}}),
      "do_lower_case");
  has(error_of(
          {{"vocab.txt", kVocab}, {"tokenizer_config.json", R"({"tokenizer_class": "XLNetTokenizer"})"}}),
      "XLNetTokenizer");
  has(error_of({{"vocab.txt", kVocab}, {"tokenizer.json", R"({"model": {"type": "BPE"}})"}}),
      "supported is WordPiece");
  has(error_of({{"tokenizer.json", R"({"model": {"vocab": {"a": -1}}})"}}), "the id of token \"a\"");
  has(error_of({{"tokenizer.json", R"({"model": {"vocab": ["a"]}})"}}), "the id of token");
  has(error_of({{"vocab.txt", kVocab}, {"tokenizer.json", R"({"added_tokens": [{"id": 3}]})"}}),
      "\"content\"");
  has(error_of({{"vocab.txt", kVocab}, {"tokenizer.json", R"({"normalizer": {"type": "NFKC"}})"}}), "NFKC");
  has(error_of({{"vocab.txt", kVocab}, {"sentence_bert_config.json", R"({"max_seq_length": 1})"}}),
      "max_seq_length");
}

// Ids by the fast tokenizer of transformers 5.23.
TEST_CASE("the real vocabulary gives the ids that transformers gives") {
  const auto folder = testing::minilm();
  if (!folder) return testing::skip("the MiniLM checkpoint is not installed");
  const Tokenizer tokenizer = Tokenizer::load([&](std::string_view name) -> std::optional<std::string> {
    std::ifstream in(*folder / name, std::ios::binary);
    if (!in) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(in), {});
  });
  CHECK(tokenizer.encode("hello world") == Ids{101, 7592, 2088, 102});
  CHECK(tokenizer.encode("Stop there!") == Ids{101, 2644, 2045, 999, 102});
  CHECK(tokenizer.encode("The [MASK] of İstanbul: ß ﬁ 👩‍🚀 中文 naïve.") ==
        Ids{101, 1996, 103, 1997, 9960, 1024, 1096, 1984, 100, 1746, 1861, 15743, 1012, 102});
  std::string long_text;
  for (int i = 0; i < 600; ++i) long_text += "word ";
  Ids expected(256, 2773);
  expected.front() = 101;
  expected.back() = 102;
  CHECK(tokenizer.encode(long_text) == expected);
}

}  // namespace
}  // namespace crumb::text
