// crumb tokenize and crumb detokenize: text to token ids and back.
#include <array>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/within.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/verb.h"
#include "cli/output.h"
#include "formats/checkpoint/checkpoint.h"
#include "jobs/samples/text_encoding.h"
#include "models/weight_source.h"
#include "text/chat/chat_template.h"
#include "text/chat/messages.h"
#include "text/text_tokenizer.h"

namespace crumb::cli {
namespace {

struct TokenizeFlags {
  std::string model, text, ids, chat;
  bool as_ids = false, pieces = false, json = false, lines = false, special = false, prompt = true,
       rendered = false;
};

constexpr uint64_t kMostInputBytes = uint64_t{1} << 30;

/// Returns the text of a file in a folder; nothing where there is none.
std::optional<std::string> file_beside(const std::filesystem::path& folder, std::string_view name) {
  const std::filesystem::path path = folder / name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_text_file(path, Checkpoint::kMaxModelFile).take();
}

/// The files of a tokenizer.
struct ModelFiles {
  std::string name;  // for messages
  text::ReadFile read;
};

/// Finds a tokenizer.json with the files next to it, a folder that has one, or any model that holds one.
ModelFiles files_of(const std::string& model) {
  const std::filesystem::path path(model);
  const bool is_sentencepiece = path.extension() == ".model";
  if ((path.extension() == ".json" || is_sentencepiece) && std::filesystem::is_regular_file(path)) {
    return {quote_text(model), [=](std::string_view name) -> std::optional<std::string> {
              if (name == "tokenizer.json" && is_sentencepiece) return std::nullopt;
              if (name == (is_sentencepiece ? "tokenizer.model" : "tokenizer.json"))
                return read_text_file(path, Checkpoint::kMaxModelFile).take();
              return file_beside(path.parent_path(), name);
            }};
  }
  for (const char* name : {"tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model",
                           "sentencepiece.bpe.model", "sentencepiece.model", "spm.model"}) {
    if (std::filesystem::exists(path / name))
      return {quote_text(model), [path](std::string_view file) { return file_beside(path, file); }};
  }
  const std::shared_ptr source = models::open_weights(model);
  return {source->describe(), [source](std::string_view name) { return source->file(name); }};
}

text::TextTokenizer open_tokenizer(const ModelFiles& files) {
  try {
    return text::TextTokenizer::load(files.read);
  } catch (const Error& error) {
    throw within_file(files.name, error);
  }
}

/// The conversation's text, as the model's chat template has it.
std::string rendered_chat(const ModelFiles& files, const TokenizeFlags& options) {
  const text::ChatConversation conversation = text::parse_conversation(
      read_text_file(options.chat, kMostInputBytes).take(), quote_text(options.chat));
  if (conversation.is_cut)
    throw Error(quote_text(options.chat) +
                ": continue_final_message is not read here; leave the last message out");
  try {
    const auto chat = text::load_chat_template(files.read, "", conversation.extra.contains("tools"));
    if (!chat)
      throw Error("it has no chat template: neither chat_template.jinja nor one in tokenizer_config.json");
    return chat->render(conversation.messages,
                        {.add_generation_prompt = options.prompt, .extra = conversation.extra});
  } catch (const Error& error) {
    throw within_file(files.name, error);
  }
}

std::string read_all(const std::string& path) {
  if (path != "-") return read_text_file(path, kMostInputBytes).take();
  std::string text;
  std::array<char, 65536> part{};
  do {
    std::cin.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > kMostInputBytes)
      throw Error("standard input is longer than " + byte_text(kMostInputBytes));
  } while (std::cin);
  return text;
}

std::string read_input(const std::string& path) {
  std::string text = read_all(path);
  jobs::check_encoding(text, path == "-" ? "standard input" : quote_text(path), terminal());
  return text;
}

/// Returns the whole text, or its lines; a last line without a newline counts.
std::vector<std::string> texts_of(std::string text, bool lines) {
  if (!lines) return {std::move(text)};
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

void print_tokens(const text::TextTokenizer& tokenizer, const std::vector<text::TokenId>& ids, bool pieces) {
  const char* separator = "";
  for (const text::TokenId id : ids) {
    const std::string* const piece = tokenizer.piece(id);
    std::cout << separator << (pieces ? quote_text(piece ? *piece : "") : std::to_string(id));
    separator = " ";
  }
  std::cout << '\n';
}

void tokenize_verb(const TokenizeFlags& options) {
  const ModelFiles files = files_of(options.model);
  const bool is_chat = !options.chat.empty();
  const std::vector<std::string> inputs = is_chat ? std::vector{rendered_chat(files, options)}
                                                  : texts_of(read_input(options.text), options.lines);
  if (options.rendered) {
    std::cout << inputs[0];
    return;
  }
  const text::TextTokenizer tokenizer = open_tokenizer(files);
  Json texts = Json::array();
  for (const std::string& text : inputs) {
    // A template writes all the special tokens itself.
    const std::vector<text::TokenId> ids = tokenizer.encode(text, options.special && !is_chat);
    if (!options.json) {
      print_tokens(tokenizer, ids, options.pieces);
      continue;
    }
    Json entry = {{"ids", ids}, {"pieces", Json::array()}};
    for (const text::TokenId id : ids) {
      const std::string* const piece = tokenizer.piece(id);
      entry["pieces"].push_back(piece ? Json(*piece) : Json());
    }
    texts.push_back(std::move(entry));
  }
  if (options.json) print_json({{"texts", std::move(texts)}});
}

std::vector<text::TokenId> ids_of(std::string_view text, const text::TextTokenizer& tokenizer) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::vector<text::TokenId> ids;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBetween, at)) != std::string_view::npos;) {
    const std::string_view word = text.substr(at, text.find_first_of(kBetween, at) - at);
    at += word.size();
    text::TokenId id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      throw usage_error("found " + quote_text(word) + " among the ids, expected whole numbers");
    if (tokenizer.piece(id) == nullptr)
      throw usage_error("there is no token " + std::to_string(id) + ": ids go up to " +
                        std::to_string(tokenizer.largest_id()));
    ids.push_back(id);
  }
  return ids;
}

void detokenize_verb(const TokenizeFlags& options) {
  const text::TextTokenizer tokenizer = open_tokenizer(files_of(options.model));
  const std::string input = options.text.empty() ? options.ids : read_input(options.text);
  Json texts = Json::array();
  for (const std::string& line : texts_of(input, options.lines)) {
    const std::string text = tokenizer.decode(ids_of(line, tokenizer), !options.special);
    if (options.json) {
      texts.push_back(text);
    } else {
      std::cout << text << '\n';
    }
  }
  if (options.json) print_json({{"texts", std::move(texts)}});
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeFlags>();
  options->special = true;
  CLI::App* verb = app.add_subcommand("tokenize", "Print the tokens of a text");
  verb->add_option("model", options->model,
                   "A tokenizer.json or SentencePiece model, or a folder, checkpoint or packed file with one")
      ->type_name("MODEL")
      ->required();
  CLI::Option* text =
      verb->add_option("--text", options->text, "The text: a file in UTF-8, or - for standard input")
          ->type_name("FILE")
          ->group(kInputFlags);
  CLI::Option* lines =
      verb->add_flag("--lines", options->lines, "Each line is a text; otherwise the whole file is one")
          ->group(kInputFlags);
  CLI::Option* chat =
      verb->add_option(
              "--chat", options->chat,
              "A conversation, which the model's chat template makes a text: a JSON list of {\"role\", "
              "\"content\"}, or an object with it as \"messages\" and what else the template is told "
              "(\"tools\", \"enable_thinking\" ...)")
          ->type_name("FILE")
          ->group(kInputFlags)
          ->excludes(text)
          ->excludes(lines);
  verb->add_flag("!--no-generation-prompt", options->prompt,
                 "With --chat: without the beginning of the model's answer")
      ->group(kInputFlags)
      ->needs(chat);
  CLI::Option* ids = verb->add_flag("--ids", options->as_ids, "Print ids (the default)")->group(kOutputFlags);
  verb->add_flag("--pieces", options->pieces, "Print tokens as the vocabulary has them, quoted")
      ->group(kOutputFlags)
      ->excludes(ids);
  verb->add_flag("!--no-special", options->special,
                 "Without the tokens that the tokenizer puts around a text")
      ->group(kInputFlags);
  CLI::Option* json =
      verb->add_flag("--json", options->json, "Print ids and tokens as JSON")->group(kOutputFlags);
  verb->add_flag("--rendered", options->rendered, "With --chat: print the text, and nothing else")
      ->group(kOutputFlags)
      ->needs(chat)
      ->excludes(json)
      ->excludes(ids);
  verb->footer("Example:\n  crumb tokenize model.gguf --text prompt.txt");
  verb->callback([options] {
    if (options->text.empty() && options->chat.empty()) throw usage_error("tokenize needs --text or --chat");
    tokenize_verb(*options);
  });
}

void add_detokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeFlags>();
  CLI::App* verb = app.add_subcommand("detokenize", "Print the text of token ids");
  verb->add_option("model", options->model,
                   "A tokenizer.json or SentencePiece model, or a folder, checkpoint or packed file with one")
      ->type_name("MODEL")
      ->required();
  CLI::Option* ids = verb->add_option("--ids", options->ids, "The ids, with spaces or commas between them")
                         ->type_name("IDS")
                         ->group(kOutputFlags);
  CLI::Option* file =
      verb->add_option("--file", options->text, "A file with the ids, or - for standard input")
          ->type_name("FILE")
          ->group(kInputFlags)
          ->excludes(ids);
  verb->add_flag("--lines", options->lines, "Each line is a text; otherwise all ids are one")
      ->group(kInputFlags);
  verb->add_flag("--special", options->special, "Print special tokens too")->group(kInputFlags);
  verb->add_flag("--json", options->json, "Print as JSON")->group(kOutputFlags);
  verb->footer("Example:\n  crumb detokenize model.gguf --ids \"464 2068 7586\"");
  verb->callback([options, ids, file] {
    if (ids->empty() && file->empty()) throw usage_error("detokenize needs --ids or --file");
    detokenize_verb(*options);
  });
}

}  // namespace crumb::cli
