// Targets and lists of formats as people write them.
#include "quant/recipe/target.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/samples.h"

using crumb::Error;
using crumb::ErrorKind;
using crumb::parse_formats;
using crumb::parse_target;
using crumb::testing::says;

TEST_CASE("targets: bits per weight, and sizes") {
  CHECK(parse_target("3.5bpw").value().bits_per_weight == 3.5);
  CHECK(parse_target("3 BPW").value().bits_per_weight == 3);
  CHECK(parse_target("0.25bpw").value().bits_per_weight == 0.25);
  CHECK(parse_target("3.5bpw").value().file_bytes == 0);
  CHECK(parse_target("200MB").value().file_bytes == 200'000'000);
  CHECK(parse_target("1.5 GiB").value().file_bytes == 1'610'612'736);
  CHECK(parse_target("7241620B").value().file_bytes == 7'241'620);
  CHECK(parse_target("200MB").value().bits_per_weight == 0);
}

TEST_CASE("targets: what is none is quoted, with both kinds named") {
  for (const char* text : {"",       "bpw",    "3.5",    "3.5 b pw", "-3bpw",    "+3bpw",         "0bpw",
                           "0.0bpw", "1e3bpw", "nanbpw", "infbpw",   "3.5.1bpw", ".bpw",          "0x3bpw",
                           "3,5bpw", "0MB",    "MB",     "3.5bpw ",  "ten MB",   "99999999999TB", "\x01"}) {
    const auto target = parse_target(text);
    INFO("'" << text << "'");
    REQUIRE_FALSE(target.ok());
    CHECK(says(target.failure().message, {"is no target", "3.5bpw", "200MB"}));
  }
  CHECK_FALSE(parse_target(std::string(400, '9') + "bpw").ok());
  CHECK_FALSE(parse_target("0." + std::string(400, '0') + "1bpw").ok());
}

TEST_CASE("formats: specs with commas between, each once") {
  const auto formats = parse_formats("int2h:group=64,int4:group=128:search=mse,mxfp4");
  REQUIRE(formats.size() == 3);
  CHECK(formats[1].to_string() == "int4:group=128:search=mse");
  CHECK(parse_formats("int8").size() == 1);
  CHECK(parse_formats(crumb::kDefaultFormats).size() >= 5);
}

TEST_CASE("formats: what is wrong names its place") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_formats(text);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      return error.what();
    }
    return "nothing was thrown";
  };
  CHECK(says(message(""), {"format 1", "nothing"}));
  CHECK(says(message("int4,"), {"format 2", "nothing"}));
  CHECK(says(message("int4,,int8"), {"format 2", "nothing"}));
  CHECK(says(message("int4,int99"), {"format 2", "int99"}));
  CHECK(says(message("int4,keep"), {"format 2", "keep", "--exclude"}));
  CHECK(says(message("int4,int4:channel"), {"format 2", "'int4:channel'", "twice"}));
  std::string many = "int2:group=1";
  for (int i = 2; i < 80; ++i) many += ",int2:group=" + std::to_string(i);
  CHECK(says(message(many), {"more than 64"}));
}
