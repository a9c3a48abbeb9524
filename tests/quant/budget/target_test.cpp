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
    CHECK(says(target.failure().message, {"is no target", "3.5bpw", "200MB", "2.5Gbops", "16acc"}));
  }
  CHECK_FALSE(parse_target(std::string(400, '9') + "bpw").ok());
  CHECK_FALSE(parse_target("0." + std::string(400, '0') + "1bpw").ok());
}

TEST_CASE("targets: what a network does, and nothing else of it") {
  const auto bops = [](const char* text) { return parse_target(text).value().bops; };
  CHECK(bops("2.5Gbops") == 2'500'000'000);
  CHECK(bops("14226111bops") == 14'226'111);
  CHECK(bops("1 kBOPs") == 1000);
  CHECK(bops("1000000Tbops") == 1'000'000'000'000'000'000);
  CHECK(parse_target("16acc").value().accumulator_bits == 16);
  CHECK(parse_target("2 ACC").value().accumulator_bits == 2);
  CHECK(parse_target("63acc").value().accumulator_bits == 63);
  for (const char* text : {"2.5Gbops", "16acc"}) {
    const crumb::Target target = parse_target(text).value();
    CHECK(target.is_of_networks());
    CHECK(target.bits_per_weight + static_cast<double>(target.file_bytes) == 0);
    CHECK((target.bops == 0) != (target.accumulator_bits == 0));
  }
  CHECK_FALSE(parse_target("3bpw").value().is_of_networks());
  CHECK_FALSE(parse_target("3MB").value().is_of_networks());
  for (const char* text :
       {"bops", "0bops", "0.4bops", "-1Mbops", "1e3bops", "1xbops", "1000001Tbops", "acc", "1acc", "64acc",
        "16.5acc", "-8acc", "+8acc", "1e1acc", "8kacc", "99999999999acc"}) {
    INFO("'" << text << "'");
    CHECK_FALSE(parse_target(text).ok());
  }
}

TEST_CASE("formats of activations are specs of activations") {
  const auto formats = crumb::parse_activation_formats("uint4,int8:token,e4m3:tensor");
  REQUIRE(formats.size() == 3);
  CHECK(formats[0].to_string() == "uint4:tensor");
  CHECK_THROWS_WITH_AS(crumb::parse_activation_formats("uint4,int4:group=32"), doctest::Contains("format 2"),
                       Error);
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
