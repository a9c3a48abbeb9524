// Recipes that are refused: the message of everything that is wrong, with file, line and key.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/recipe/recipe.h"
#include "tests/quant/recipe/refusal.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::parse_recipe;
using crumb::QuantSpec;
using crumb::Recipe;
using crumb::Rule;
using crumb::testing::refusal;
using crumb::testing::says;
using crumb::testing::with_rule;

TEST_CASE("recipe: unknown and repeated keys say file, line, key and the nearest or the first") {
  CHECK(says(refusal("version: 1\nwieghts: int4"), {"'mine.yaml' line 2", "'wieghts'", "'weights'"}));
  CHECK(says(refusal("weights: int4\nzsdt: 3"), {"line 2", "'zsdt'", "'zstd'"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, weigths: int4}")), {"line 3", "'weigths'", "'weights'"}));
  CHECK(says(refusal(with_rule("{match: {nmae: a}, skip: true}")), {"line 3", "'nmae'", "'name'"}));
  CHECK(
      says(refusal("weights: int4\nversion: 1\nweights: int8"), {"line 3", "'weights'", "twice", "line 1"}));
  CHECK(says(refusal(with_rule("{name: a, skip: true}")), {"line 3", "'name'", "belongs to match"}));
  CHECK(says(refusal(with_rule("match: {name: a}\n    skip: true\n    skip: true")),
             {"line 5", "'skip'", "twice", "line 4"}));
  CHECK(says(refusal(with_rule("match:\n      name: a\n      name: b\n    skip: true")),
             {"line 5", "'name'", "twice", "line 4"}));
  CHECK(says(refusal("? weights\n: int4\n\"weights\": int8"), {"line 3", "'weights'", "twice", "line 1"}));
}

TEST_CASE("recipe: stages that are wrong, with line and key") {
  const auto refused = [](const std::string& stages) { return refusal("weights: int4\nstages:" + stages); };
  CHECK(says(refused("\n  - gtpq: {}"), {"line 3", "unknown stage 'gtpq'", "block_wise, end_to_end"}));
  CHECK(says(refused(" [block_wize]"), {"line 2", "did you mean 'block_wise'"}));
  CHECK(says(refused(" []"), {"line 2", "an empty list"}));
  CHECK(says(refused("\n  - {block_wise: {}, end_to_end: {}}"), {"line 3", "found 2 keys"}));
  CHECK(says(refused("\n  - block_wise: [1]"), {"line 3", "options of 'block_wise', a map"}));
  CHECK(says(refused("\n  - block_wise: {pases: 1}"), {"line 3", "no option 'pases'", "'passes'"}));
  CHECK(says(refused("\n  - block_wise: {passes: [1]}"), {"line 3", "a value of 'passes'"}));
  CHECK(says(refused("\n  - block_wise: {passes: '2:rate=3'}"), {"line 3", "an option and its value"}));
  CHECK(says(refused("\n  - block_wise: {passes: 0}"), {"line 3", "a whole number from 1 on", "'0'"}));
  CHECK(says(refused("\n  - block_wise: {rate: -1}"), {"line 3", "a number above 0", "'-1'"}));
  CHECK(says(refused(" block_wise:passes=1:passes=2"), {"line 2", "twice"}));
  CHECK(says(refused(" block_wise:passes"), {"line 2", "passes=VALUE"}));
  CHECK(says(refused("\n  - - block_wise"), {"line 3", "expected STAGE"}));
}

TEST_CASE("recipe: what graphs have beside tensors") {
  const Recipe recipe = parse_recipe(R"(weights: int4
activations: uint8
inputs: keep
biases: int32
batch_norm: keep
rules:
  - {match: {op: [Conv, Linear], depthwise: true}, weights: int8, activations: keep}
  - {match: {op: Relu}, activations: "uint4:search=ema"}
  - {match: {depthwise: false, name: "stem"}, skip: true}
)",
                                     "r");
  CHECK(recipe.activations->to_string() == "uint8:tensor");
  REQUIRE(recipe.inputs);
  CHECK_FALSE(*recipe.inputs);
  CHECK(recipe.bias_bits == 32);
  CHECK(recipe.batch_norm == Recipe::BatchNorm::kKeep);
  CHECK(recipe.rules[0].match.op == std::vector<std::string>{"Conv", "Linear"});
  CHECK(recipe.rules[0].match.depthwise == true);
  REQUIRE(recipe.rules[0].activations);
  CHECK_FALSE(*recipe.rules[0].activations);
  CHECK(recipe.rules[1].leaves_weights);
  CHECK_FALSE(recipe.rules[1].skips());
  CHECK((*recipe.rules[1].activations)->search == crumb::Search::kEma);
  CHECK(recipe.rules[2].skips());
  CHECK(parse_recipe(to_yaml(recipe), "r") == recipe);

  const Recipe plain = parse_recipe("weights: int4", "r");
  CHECK_FALSE(plain.activations);
  CHECK_FALSE(plain.inputs);
  CHECK(to_yaml(plain).find("activations") == std::string::npos);

  const std::string weights = "weights: int4\n";
  CHECK(says(refusal(weights + "activations: uint44"), {"line 2", "activations", "'uint44'", "uint4"}));
  CHECK(says(refusal(weights + "activations: uint8:channel"), {"line 2", "channel", "not yet"}));
  CHECK(says(refusal(weights + "activations: uint8:group=8"), {"line 2", "group", "not"}));
  CHECK(says(refusal(weights + "activations: mxfp8_e4m3"), {"line 2", "not supported yet"}));
  CHECK(says(refusal(weights + "activations: int8:search=hqo"), {"line 2", "hqo", "absmax"}));
  CHECK(says(refusal(weights + "activations: nf4"), {"line 2", "nf4"}));
  CHECK(says(refusal("weights: int4:search=ema"), {"line 1", "ema", "activations"}));
  for (const char* biases : {"int1", "int33", "uint8", "int", "32", "int08", "int-8", "int999"}) {
    CHECK(says(refusal(weights + "biases: " + biases), {"line 2", "biases", biases, "int32"}));
  }
  CHECK(says(refusal(weights + "batch_norm: yes"), {"line 2", "batch_norm", "'yes'", "fold"}));
  CHECK(says(refusal(with_rule("{match: {op: \"Co nv\"}, skip: true}")), {"line 3", "op", "'Co nv'"}));
  CHECK(says(refusal(with_rule("{match: {op: Conv}, skip: true, activations: uint8}")),
             {"line 3", "activations", "skip"}));
  CHECK(says(refusal(with_rule("{match: {op: Conv}}")), {"line 3", "weights", "activations", "skip"}));
}

TEST_CASE("recipe: wrong values say line, key, what was found and what was expected") {
  CHECK(says(refusal("version: 2\nweights: int4"), {"line 1", "version", "expected 1", "'2'"}));
  CHECK(says(refusal("weights: int44"), {"line 1", "weights", "'int44'", "'int4'"}));
  CHECK(says(refusal("weights: \"int4\\e[2J\\n\""), {"line 1", "weights", "int4\\x1b[2J"}));
  CHECK(says(refusal("weights: [int4]"), {"line 1", "weights", "SPEC", "a list"}));
  CHECK(says(refusal("weights:"), {"line 1", "weights", "SPEC", "nothing"}));
  CHECK(says(refusal("weights: {a: b}"), {"line 1", "weights", "a map"}));
  CHECK(says(refusal("weights: int4\nembeddings: kep"), {"line 2", "embeddings", "'kep'"}));
  for (const char* level : {"0", "20", "-3", "on", "1.5", "''", "0x3", "99999999999"}) {
    CHECK(says(refusal("weights: int4\nzstd: " + std::string(level)), {"line 2", "zstd", "1 to 19"}));
  }
  CHECK(says(refusal("embeddings: keep"), {"line 1", "'weights'", "int4:group=128"}));
  CHECK(says(refusal("weights: int4\nrules: {match: {name: a}, skip: true}"),
             {"line 2", "rules", "a list", "a map"}));
  CHECK(says(refusal("weights: int4\nrules:\n  - a"), {"line 3", "rule", "map", "'a'"}));
  CHECK(says(refusal(with_rule("{skip: true}")), {"line 3", "'match'"}));
  CHECK(says(refusal(with_rule("{match: stem, skip: true}")), {"line 3", "match", "a map", "'stem'"}));
  CHECK(says(refusal(with_rule("{match: {}, skip: true}")), {"line 3", "name", "role"}));
  CHECK(says(refusal(with_rule("{match: {name: []}, skip: true}")), {"line 3", "name", "empty list"}));
  CHECK(says(refusal(with_rule("{match: {name: [[a]]}, skip: true}")), {"line 3", "name", "a list"}));
  CHECK(says(refusal(with_rule("{match: {name: null}, skip: true}")), {"line 3", "name", "nothing"}));
  CHECK(says(refusal(with_rule("{match: {name: 're:a('}, skip: true}")), {"line 3", "name", "'('"}));
  CHECK(says(refusal(with_rule("match:\n      name:\n        - a\n        - 're:*'\n    skip: true")),
             {"line 6", "name", "repetition"}));
  CHECK(says(refusal(with_rule("{match: {role: wieght}, skip: true}")),
             {"line 3", "role", "'wieght'", "'weight'"}));
  CHECK(says(refusal(with_rule("{match: {name: a}}")), {"line 3", "neither"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, weights: int4, skip: true}")), {"line 3", "both"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, weights: keep}")), {"line 3", "weights", "skip: true"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, skip: false}")), {"line 3", "skip", "expected true"}));
  CHECK(says(refusal(with_rule("{match: {name: a}, skip: yes}")),
             {"line 3", "skip", "true or false", "'yes'"}));
  CHECK(
      says(refusal(with_rule("{match: {name: a}, skip: true, optional: 1}")), {"line 3", "optional", "'1'"}));
}

TEST_CASE("recipe: every limit, by the last that is taken and the first that is not") {
  const struct {
    const char* key;
    std::vector<std::string> taken, refused;
  } rows[] = {
      {"zstd", {"1", "9", "10", "19", "off"}, {"0", "20", "001", "-1"}},
      {"biases", {"int2", "int9", "int10", "int32", "keep"}, {"int1", "int33", "int02", "int100", "in32"}},
      {"accumulator",
       {"2", "63", "63:a2q:tile=1", "8:a2q_plus:tile=2147483647", "none"},
       {"1", "64", "8:tile=0", "8:tile=2147483648", "8:tile=4:a2q", "8:a2q:a2q", "8:tile=4:tile=4",
        "8:", "+8"}},
      {"prune",
       {"0", "0.999999999", "5e-1", "0.5:steps=1", "0.5:steps=1000000", "0:floor=1", "0.9:floor=0.1", "none"},
       {"1", "1e0", "0.5:steps=0", "0.5:steps=1000001", "0:floor=1.000001", "0.9:floor=0.100001", "-0.1",
        "+0.1", "0.5:steps=4:steps=4", "0.5:floor=0.1:floor=0.1", "nan", "1e-999x",
        "0.50000000000000000000000000000000000"}},
      {"learned_bits",
       {"1bpw", "3bpw:least=2", "3bpw:most=8", "3bpw:least=4:most=4", "1bops", "1kbops", "1000000Tbops",
        "0.5bops", "1 Gbops"},
       {"3bpw:least=1", "3bpw:most=9", "3bpw:least=5:most=4", "0.49bops", "1000000.001Tbops", "1ebops",
        "bop"}},
  };
  for (const auto& row : rows) {
    for (const bool good : {true, false}) {
      for (const std::string& value : good ? row.taken : row.refused) {
        CAPTURE(row.key);
        CAPTURE(value);
        CHECK((refusal("weights: int4\n" + std::string(row.key) + ": \"" + value + "\"") == "") == good);
      }
    }
  }
  CHECK(to_string(crumb::parse_learned_bits("1000000Tbops")) == "1000000000000000000bops");
  CHECK(to_string(crumb::parse_learned_bits("2kbops")) == "2000bops");
  CHECK(to_string(crumb::parse_learned_bits("2Gbops")) == "2000000000bops");
  CHECK(to_string(crumb::parse_learned_bits("2GB")) == "2GB");
  CHECK(to_string(crumb::parse_learned_bits("2500kB")) == "2500kB");
  CHECK(to_string(crumb::parse_learned_bits("3000MB")) == "3GB");
  CHECK(to_string(crumb::parse_prune("0.5:steps=10:floor=0")) == "0.5:global");
  CHECK(to_string(crumb::parse_accumulator("8")) == "8:a2q_plus");

  const auto takes_operator = [](const std::string& name) {
    return refusal(with_rule("{match: {op: \"" + name + "\"}, skip: true}")) == "";
  };
  CHECK(takes_operator(std::string(64, 'a')));
  CHECK_FALSE(takes_operator(std::string(65, 'a')));
  CHECK_FALSE(takes_operator(""));
  for (int c = ' '; c < 127; ++c) {
    if (c == '"' || c == '\\') continue;
    CAPTURE(c);
    CHECK(takes_operator(std::string("A") + static_cast<char>(c)) == (std::isalnum(c) != 0 || c == '_'));
  }
  const std::string most = "weights: int4\n" + std::string(Recipe::kMaxBytes - 14, '#');
  CHECK(refusal(most) == "");
  CHECK_FALSE(refusal(most + "#").empty());
  for (const char* yes : {"true", "True", "TRUE"}) {
    CHECK(parse_recipe(with_rule("{match: {name: a}, skip: true, optional: " + std::string(yes) + "}"), "r")
              .rules[0]
              .optional);
  }
  for (const char* no : {"false", "False", "FALSE"}) {
    CHECK_FALSE(
        parse_recipe(with_rule("{match: {name: a}, skip: true, optional: " + std::string(no) + "}"), "r")
            .rules[0]
            .optional);
  }
}

TEST_CASE("recipe: of the control characters, tabs and ends of lines alone") {
  for (int byte = 0; byte < 0x80; ++byte) {
    const char c = static_cast<char>(byte);
    if (c == '\n') continue;
    CAPTURE(byte);
    const std::string said = refusal(std::string("weights: int4\nzstd: 3  # a") + c + "\n");
    if (c == '\t' || c == '\r' || (byte >= 0x20 && byte < 0x7f)) {
      CHECK(said == "");
    } else {
      CHECK(says(said, {"line 2", "control"}));
    }
  }
}

TEST_CASE("recipe: what is wrong is said in characters that can be printed") {
  for (int byte = 1; byte < 0x100; ++byte) {
    const std::string c = byte < 0x80 ? std::string(1, static_cast<char>(byte))
                                      : std::string{static_cast<char>(0xc0 | byte >> 6),
                                                    static_cast<char>(0x80 | (byte & 0x3f))};
    CAPTURE(byte);
    const std::string said = refusal("weights: \"\\" + c + "\"\n");  // an escape that YAML may not know
    const auto prints = [](char s) { return s == '\n' || (s >= 0x20 && s < 0x7f); };
    if (said.find("not YAML") != std::string::npos) CHECK(std::ranges::all_of(said, prints));
    if (byte >= 0xa1) CHECK(says(said, {"not YAML", "?"}));
  }
}

TEST_CASE("recipe: what is no recipe at all") {
  for (const char* empty : {"", " \n", "# only a comment\n", "---\n", "--- ~\n...\n"}) {
    CHECK(says(refusal(empty), {"mine.yaml", "empty", "weights"}));
  }
  CHECK(says(refusal("- weights: int4"), {"line 1", "map", "a list"}));
  CHECK(says(refusal("weights"), {"line 1", "map", "'weights'"}));
  CHECK(says(refusal("weights: int4\n---\nweights: int8"), {"line 3", "second document"}));
  CHECK(says(refusal("rules:\n\t- a"), {"line 2", "tab"}));
  CHECK(says(refusal(std::string_view("weights: int4\n\0", 15)), {"line 2", "control"}));
  CHECK(says(refusal("weights: int4\nrules: \xff"), {"line 2", "UTF-8"}));
  CHECK(says(refusal(std::string_view("w\0e\0", 4)), {"line 1", "control"}));  // UTF-16
  CHECK(says(refusal("weights: &a int4"), {"line 1", "anchor"}));
  CHECK(says(refusal("weights: *a"), {"line 1"}));
  CHECK(says(refusal("weights: !!str int4"), {"line 1", "tag"}));
  CHECK(says(refusal("weights: 'int4"), {"line 1", "the quote ' is not closed"}));
  CHECK(says(refusal("weights: int4  # a\nrules: 'b"), {"line 2", "the quote ' is not closed"}));
  CHECK(says(refusal("a: b: c"), {"line 1", "not YAML"}));
  CHECK(says(refusal("weights: int4\nrules: " + std::string(100000, '[')), {"line 2"}));
  std::string deep;
  for (size_t i = 0; i < 300; ++i) deep += std::string(i, ' ') + "a:\n";
  CHECK(says(refusal(deep), {"16 levels"}));
  CHECK(says(refusal(std::string(Recipe::kMaxBytes + 1, ' ')), {"bytes"}));
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string n = std::to_string(i), before = "*a" + std::to_string(i - 1);
    laughs += "a" + n + ": &a" + n + " [" + before + ", " + before + ", " + before + "]\n";
  }
  CHECK_FALSE(refusal(laughs).empty());
}

TEST_CASE("recipe: a # begins a comment behind a space, not behind a quote") {
  for (const std::string quote : {"'", "\""}) {
    for (const std::string other : {"'", "\""}) {
      const std::string begin = "weights: int4\nrules: [{match: {name: [" + quote + "a" + quote,
                        rest = "#, " + other + "b\n]}, skip: true}]\n";
      CAPTURE(begin + rest);
      CHECK(says(refusal(begin + rest), {"line 2", ("the quote " + other + " is not closed").c_str()}));
      for (const char* space : {" ", "\t", "\n", "\r\n"}) CHECK(refusal(begin + space + rest) == "");
    }
  }
}

TEST_CASE("recipe: a quote that ends in another line is blamed for what is wrong behind it") {
  CHECK(says(refusal("weights: 'int4\nembeddings: 'keep'\n"), {"the quote in line 1 is not closed there"}));
  CHECK(says(refusal("\nweights: 'int4'\na: b: c"), {"line 3", "not YAML"}));
  CHECK(refusal("\nweights: 'int4'\na: b: c").find("quote") == std::string::npos);
}

TEST_CASE("recipe: brackets and quotes inside of a plain word open and close nothing") {
  for (const char* word : {"b], 'c", "b}, 'c", "b], [\"c", "it's", "a[, 'b"}) {
    CAPTURE(word);
    CHECK(refusal(std::string("weights: int4\nrules:\n  - match:\n      name: ") + word +
                  "\n    skip: true\n") == "");
  }
}
