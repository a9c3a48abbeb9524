// The spec grammar: round trips, defaults, what each wrong part is answered with, and strings from nowhere.
#include "quant/quant_spec.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/testing.h"

using crumb::Granularity;
using crumb::QuantSpec;
using crumb::Range;
using crumb::Rounding;
using crumb::ScaleFormat;
using crumb::Search;
using crumb::ZeroPoint;

namespace {

/// The message that a spec is refused with; empty when it is taken.
std::string refusal(const std::string& text, QuantSpec (*parse)(std::string_view) = QuantSpec::parse) {
  try {
    (void)parse(text);
    return {};
  } catch (const crumb::Error& error) {
    CHECK(error.kind() == crumb::ErrorKind::kUsage);
    return error.what();
  }
}

std::string activation_refusal(const std::string& text) {
  return refusal(text, QuantSpec::parse_activations);
}

bool round_trips(const std::string& text) {
  const QuantSpec spec = QuantSpec::parse(text);
  const std::string line = spec.to_string();
  return QuantSpec::parse(line) == spec && QuantSpec::parse(line).to_string() == line;
}

}  // namespace

TEST_CASE("spec: a bare format has the defaults") {
  const QuantSpec spec = QuantSpec::parse("int4");
  CHECK(spec.number->name == "int4");
  CHECK(spec.block_format == nullptr);
  CHECK(spec.granularity == Granularity::kChannel);
  CHECK(spec.scale == ScaleFormat::kF32);
  CHECK(spec.search == Search::kAbsmax);
  CHECK(spec.range == Range::kNarrow);
  CHECK(spec.zero == ZeroPoint::kNone);
  CHECK(spec.round == crumb::RoundingMode{});
  CHECK_FALSE(spec.pad);
  CHECK(spec.to_string() == "int4:channel");
  CHECK(QuantSpec::parse("uint8").range == Range::kFull);
  CHECK(QuantSpec::parse("palette4").search == Search::kKmeans);
}

TEST_CASE("spec: every part is understood, in any order") {
  const QuantSpec spec = QuantSpec::parse(
      "uint4:search=percentile=99.5:zero=float:group=64:pad:range=narrow:scale=bf16:round=stochastic=7");
  CHECK(spec.granularity == Granularity::kGroup);
  CHECK(spec.block_cols == 64);
  CHECK(spec.search == Search::kPercentile);
  CHECK(spec.percentile == 99.5);
  CHECK(spec.zero == ZeroPoint::kFloat);
  CHECK(spec.range == Range::kNarrow);
  CHECK(spec.scale == ScaleFormat::kBF16);
  CHECK(spec.round == crumb::RoundingMode{Rounding::kStochastic, 7});
  CHECK(spec.pad);
  CHECK(QuantSpec::parse("int4:group=64").scale == ScaleFormat::kF16);
  CHECK(QuantSpec::parse("int4:tensor").scale == ScaleFormat::kF32);
  const QuantSpec block = QuantSpec::parse("int4:block=4x8");
  CHECK(block.block_rows == 4);
  CHECK(block.block_cols == 8);
  CHECK(block.scale == ScaleFormat::kF16);
  CHECK_FALSE(QuantSpec::parse("int4:pad=off").pad);
  const QuantSpec nvfp4 = QuantSpec::parse("nvfp4");
  CHECK(nvfp4.number->name == "e2m1");
  CHECK(nvfp4.block_cols == 16);
  CHECK(nvfp4.scale == ScaleFormat::kE4M3);
  CHECK(QuantSpec::parse("mxint8").number->name == "int8");
}

TEST_CASE("spec: the canonical line reads back as the same spec") {
  for (const char* text :
       {"int4", "int2h:group=64:scale=f16:search=mse", "mxfp4", "uint8:tensor:search=percentile",
        "nvfp4:search=mse:pad", "e4m3fn:channel", "int8:tensor:range=full:zero=int",
        "ternary:group=7:scale=e8m0", "palette3:group=128:scale=e4m3", "binary:search=lsq",
        "e2m1:block=1x1:round=ceil", "uint1:zero=float", "int4:search=percentile=0.001",
        "uint4:round=stochastic=18446744073709551615", "int4:round=stochastic", "mxfp6_e3m2:round=floor",
        "int4:group=1073741824", "int4:search=percentile=33.333333333333336", "nf4:group=64"}) {
    CAPTURE(text);
    CHECK(round_trips(text));
  }
  // Everything that the grammar allows, over the tables.
  std::mt19937 engine(1);
  const auto pick = [&](const std::vector<std::string>& from) { return from[engine() % from.size()]; };
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto& formats = crumb::number_formats();
    std::string text =
        engine() % 8 == 0 ? std::string(crumb::kBlockFormats[engine() % std::size(crumb::kBlockFormats)].name)
                          : std::string(formats[engine() % formats.size()].name);
    text += pick({"", "", ":tensor", ":channel", ":group=32", ":group=5", ":block=3x7"});
    text += pick({"", "", ":scale=f32", ":scale=f16", ":scale=bf16", ":scale=e8m0", ":scale=e4m3"});
    text += pick({"", "", ":search=absmax", ":search=percentile", ":search=percentile=97.25", ":search=mse",
                  ":search=hqo", ":search=lsq", ":search=kmeans"});
    text += pick({"", "", ":range=narrow", ":range=full"});
    text += pick({"", "", ":zero=none", ":zero=int", ":zero=float", ":zero=min"});
    text += pick({"", "", ":round=half_even", ":round=half_up", ":round=down", ":round=stochastic=12"});
    text += pick({"", "", ":pad", ":pad=on", ":pad=off"});
    if (!refusal(text).empty()) continue;
    ++taken;
    if (!round_trips(text)) {
      CAPTURE(text);
      CHECK(round_trips(text));
    }
  }
  CHECK(taken > 2000);
}

TEST_CASE("spec: every format parses alone and per group") {
  for (const crumb::NumberFormat& f : crumb::number_formats()) {
    CAPTURE(f.name);
    CHECK(refusal(std::string(f.name)).empty() == !f.scale_only);
    if (!f.scale_only) CHECK(round_trips(std::string(f.name) + ":group=32"));
  }
  for (const crumb::BlockFormat& f : crumb::kBlockFormats) CHECK(round_trips(std::string(f.name)));
}

TEST_CASE("spec: what is wrong is named, with what would be right") {
  const struct {
    const char* text;
    std::vector<std::string> says;
  } rows[] = {
      {"", {"number format", "did you mean"}},
      {"imt4", {"'imt4'", "did you mean 'int4'"}},
      {"int9", {"'int9'", "did you mean 'int"}},
      {"INT4", {"'INT4'", "did you mean"}},
      {"e4m4", {"'e4m4'", "did you mean 'e4m"}},
      {"mxfp5", {"did you mean 'mxfp4'"}},
      {"e8m0", {"e8m0", "scale format"}},
      {" int4", {"' int4'", "'int4'"}},
      {"int4:", {"key ''"}},
      {"int4::tensor", {"key ''"}},
      {"int4:chanel", {"'chanel'", "did you mean 'channel'"}},
      {"int4:grop=32", {"'grop'", "did you mean 'group'"}},
      {"int4:serach=mse", {"'serach'", "did you mean 'search'"}},
      {"int4:tensor:channel", {"granularity", "twice"}},
      {"int4:group=32:group=32", {"granularity", "twice"}},
      {"int4:group", {"'group'", "group=128"}},
      {"int4:block", {"'block'", "block=16x16"}},
      {"int4:tensor=3", {"'tensor'", "no value", "'3'"}},
      {"int4:channel=", {"'channel'", "no value"}},
      {"int4:group=", {"size", "''"}},
      {"int4:group=0", {"size", "'0'"}},
      {"int4:group=-4", {"size", "'-4'"}},
      {"int4:group=3.5", {"size", "'3.5'"}},
      {"int4:group=32x", {"size", "'32x'"}},
      {"int4:group=99999999999999999999", {"size", "2^30"}},
      {"int4:group=1073741825", {"2^30"}},
      {"int4:block=4", {"RxC", "'4'"}},
      {"int4:block=4x", {"size", "''"}},
      {"int4:block=x4", {"size", "''"}},
      {"int4:block=0x4", {"size", "'0'"}},
      {"int4:block=4x4x4", {"size", "'4x4'"}},
      {"int4:scale=f61", {"scale format 'f61'", "did you mean 'f"}},
      {"int4:scale=", {"scale format ''"}},
      {"int4:scale", {"'scale'", "scale=f16"}},
      {"int4:scale=f16:scale=f16", {"'scale'", "twice"}},
      {"int4:search=mes", {"search 'mes'", "did you mean 'mse'"}},
      {"int4:search", {"'search'", "search=mse"}},
      {"int4:search=mse=3", {"search=mse", "no value"}},
      {"int4:search=percentile=", {"percentile", "''"}},
      {"int4:search=percentile=0", {"percentile", "'0'"}},
      {"int4:search=percentile=100.5", {"percentile", "'100.5'"}},
      {"int4:search=percentile=-1", {"percentile", "'-1'"}},
      {"int4:search=percentile=nan", {"percentile", "'nan'"}},
      {"int4:search=percentile=9x", {"percentile", "'9x'"}},
      {"int4:search=kmeans", {"kmeans", "palettes", "int4"}},
      {"palette4:search=mse", {"palette4", "kmeans", "search=mse"}},
      {"nf4:search=hqo", {"hqo", "nf4"}},
      {"nf4:search=lsq", {"lsq", "nf4"}},
      {"int4:range=narow", {"range 'narow'", "did you mean 'narrow'"}},
      {"int4:range", {"'range'", "range=full"}},
      {"int2h:range=narrow", {"int2h", "one range", "narrow"}},
      {"ternary:range=full", {"ternary", "one range"}},
      {"e2m1:range=narrow", {"e2m1", "one range"}},
      {"uint1:range=narrow", {"uint1", "one range"}},
      {"int4:zero=imt", {"zero point 'imt'", "did you mean 'int'"}},
      {"int4:zero", {"'zero'", "zero=int"}},
      {"int2h:zero=int", {"int2h", "zero=int"}},
      {"e4m3fn:zero=float", {"e4m3fn", "zero=float"}},
      {"int4:zero=min", {"int4", "zero=min is for unsigned integers"}},
      {"uint4:zero=min:search=hqo", {"absmax, percentile or mse", "search=hqo"}},
      {"ternary:zero=int", {"ternary", "zero=int"}},
      {"binary:zero=int", {"binary", "zero=int"}},
      {"int4:round=halfeven", {"rounding 'halfeven'", "did you mean 'half_even'"}},
      {"int4:round=floor=3", {"stochastic", "round=floor=3"}},
      {"int4:round=stochastic=", {"seed"}},
      {"int4:round=stochastic=-1", {"seed", "stochastic=-1"}},
      {"int4:round=stochastic=99999999999999999999", {"seed"}},
      {"binary:round=floor", {"binary", "round=floor"}},
      {"nf4:round=ceil", {"nf4", "round=ceil"}},
      {"int4:pad=maybe", {"value of pad 'maybe'", "did you mean"}},
      {"int4:pad:pad", {"'pad'", "twice"}},
      {"mxfp4:channel", {"mxfp4", "32", "'channel'"}},
      {"mxfp4:group=32", {"mxfp4", "granularity"}},
      {"mxfp4:scale=f16", {"mxfp4", "e8m0", "scale=f16"}},
      {"nvfp4:scale=e8m0", {"nvfp4", "e4m3"}},
      {"mxfp4:search=hqo", {"mxfp4", "search=hqo"}},
      {"mxint8:range=full", {"mxint8", "range=full"}},
      {"mxint8:zero=int", {"mxint8", "zero=int"}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const std::string message = refusal(row.text);
    CHECK(message.find("spec '" + std::string(row.text) + "'") == 0);
    for (const std::string& part : row.says) {
      if (message.find(part) == std::string::npos) {
        CAPTURE(message);
        CHECK(part == "");
      }
    }
  }
}

TEST_CASE("spec: of activations, what one quantizer on an edge can say") {
  for (const char* taken :
       {"int8", "uint4:zero=int", "int2h", "binary", "e4m3fn", "uint8:search=percentile=99", "int8:token",
        "uint8:token", "int4:token:range=full", "e2m1:token", "e4m3fn:token:scale=f32"}) {
    CAPTURE(taken);
    CHECK(activation_refusal(taken) == "");
  }
  const std::pair<const char*, const char*> refused[] = {
      {"int8:channel", "'channel' (not yet)"},
      {"int8:group=8", "'group' (not yet)"},
      {"int8:block=2x2", "'block' (not yet)"},
      {"mxfp4", "not supported yet"},
      {"nf4", "nf4"},
      {"ternary:search=lsq", "lsq"},
      {"int8:search=hqo", "hqo"},
      {"int8:search=lsq", "lsq"},
      {"int8:round=stochastic", "random"},
      {"int8:pad", "'pad'"},
      {"binary:token", "integers and minifloats, found binary"},
      {"int2h:token", "integers and minifloats, found int2h"},
      {"int8:token:search=mse", "search=mse"},
      {"int8:token:search=ema", "search=ema"},
      {"uint8:token:zero=int", "no zero point"},
      {"uint8:token:zero=float", "no zero point"},
      {"int8:token:scale=f16", "scale=f16"},
      {"int8:token:scale=e8m0", "scale=e8m0"},
  };
  for (const auto& [text, part] : refused) {
    const std::string message = activation_refusal(text);
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(refusal("int8:token").find("activations") != std::string::npos);
  CHECK(refusal("int8:search=ema").find("activations") != std::string::npos);
}

TEST_CASE("spec: a line of weights or of activations is read again without being told of which") {
  for (const char* text : {"uint4:search=ema", "int8:tensor:search=ema:zero=int", "int8:token", "uint8:token",
                           "int2h", "uint8:search=percentile=99", "e4m3fn:scale=e8m0:search=ema"}) {
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse_activations(text);
    CHECK(QuantSpec::parse_either(spec.to_string()) == spec);
  }
  for (const char* text :
       {"int4", "int4:group=32:search=hqo", "palette4", "nvfp4", "uint4:group=32:zero=min"}) {
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    CHECK(QuantSpec::parse_either(spec.to_string()) == spec);
  }
  CHECK(refusal("int8:channel:search=ema", QuantSpec::parse_either).find("'channel'") != std::string::npos);
}

TEST_CASE("spec: long and odd strings are refused briefly and never crash") {
  CHECK(refusal(std::string(100000, 'a')).size() < 600);
  CHECK(refusal("int4" + std::string(300, ':')).size() < 600);
  std::mt19937 engine(7);
  const std::string alphabet = "int4uhe2m1:=:=xgroupblscaekhqftrd0123456789.-_ \t\n\xff";
  const std::string pieces[] = {"int4",
                                "uint8",
                                "int2h",
                                "mxfp4",
                                "e4m3fn",
                                "palette2",
                                ":",
                                "=",
                                "x",
                                "group",
                                "block",
                                "16",
                                "scale",
                                "f16",
                                "search",
                                "mse",
                                "percentile",
                                "zero",
                                "round",
                                "stochastic",
                                "pad",
                                "99.9",
                                "range",
                                "full",
                                "tensor",
                                "-1",
                                "1e5",
                                "",
                                "18446744073709551616"};
  const int count = crumb::testing::slow() ? 100000 : 20000;
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (uint32_t length = engine() % 12; length > 0; --length) {
      if (engine() % 3 == 0) {
        text += alphabet[engine() % alphabet.size()];
      } else {
        text += pieces[engine() % std::size(pieces)];
      }
    }
    if (engine() % 50 == 0) text.push_back('\0');
    const std::string message = refusal(text);
    if (!message.empty()) continue;
    ++taken;
    CHECK(round_trips(text));
  }
  CHECK(taken > 0);
  // One character changed, dropped or added in valid specs.
  for (const char* each : {"uint4:search=percentile=99.5:zero=float:group=64:pad", "mxfp4:round=stochastic=7",
                           "int4:block=4x8:scale=bf16:range=full"}) {
    const std::string valid = each;
    for (size_t i = 0; i < valid.size(); ++i) {
      for (const char c : alphabet) {
        std::string text = valid;
        text[i] = c;
        if (refusal(text).empty()) CHECK(round_trips(text));
        text = valid;
        text.insert(i, 1, c);
        if (refusal(text).empty()) CHECK(round_trips(text));
      }
      (void)refusal(valid.substr(0, i));
      (void)refusal(valid.substr(0, i) + valid.substr(i + 1));
    }
  }
}

TEST_CASE("spec: of caches, a scale for each token and head or for groups of a head") {
  for (const char* taken : {"int8", "int4:token", "int2", "e4m3fn", "int4:group=32", "e2m1:group=16",
                            "int5:range=full", "int4:rotate", "int4:group=16:rotate=on", "int8:rotate=off"}) {
    CAPTURE(taken);
    const QuantSpec spec = QuantSpec::parse_cache(taken);
    CHECK(spec.scale == ScaleFormat::kF32);
    CHECK(QuantSpec::parse_cache(spec.to_string()) == spec);
  }
  CHECK(QuantSpec::parse_cache("int8").to_string() == "int8:token");
  CHECK(QuantSpec::parse_cache("int4:rotate").rotate);
  CHECK(QuantSpec::parse_cache("int4:rotate").to_string() == "int4:token:rotate=on");
  CHECK(refusal("int4:rotate").find("caches of keys and values") != std::string::npos);
  CHECK(refusal("int8:token:rotate", QuantSpec::parse_activations).find("caches") != std::string::npos);
  const std::pair<const char*, const char*> refused[] = {{"uint8", "have signs"},
                                                         {"int8:channel", "'channel'"},
                                                         {"int8:block=2x2", "'block'"},
                                                         {"mxfp4", "token and head"},
                                                         {"nf4", "nf4"},
                                                         {"int8:search=mse", "search=mse"},
                                                         {"int8:zero=int", "zero point"},
                                                         {"int4:group=32:scale=f16", "scale=f16"},
                                                         {"int8:group=32:pad", "'pad'"},
                                                         {"int8:round=stochastic", "random"},
                                                         {"int2h", "integers and minifloats, found int2h"}};
  for (const auto& [text, part] : refused) {
    const std::string message = refusal(text, QuantSpec::parse_cache);
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("spec: misfits say which size does not divide what") {
  const auto misfit = [](const char* text, const std::vector<uint64_t>& shape) {
    return QuantSpec::parse(text).misfit(shape).value_or("");
  };
  for (const char* part : {"32", "100 columns", "[7, 100]"}) {
    CHECK(misfit("int4:group=32", {7, 100}).find(part) != std::string::npos);
  }
  CHECK(misfit("mxfp4", {7, 100}).find("mxfp4's block of 32") != std::string::npos);
  CHECK(misfit("nvfp4", {100}).find("16") != std::string::npos);
  CHECK(misfit("int4:block=4x8", {6, 16}).find("4 rows does not divide the 6 rows of [6, 16]") !=
        std::string::npos);
  CHECK(misfit("int4:block=4x8", {8, 12}).find("12 columns") != std::string::npos);
  CHECK(misfit("int4:group=32", {3, 4, 8}) == "");
  CHECK(misfit("int4:group=32", {3, 5, 8}).find("40 columns of [3, 5, 8]") != std::string::npos);
  CHECK(misfit("int4:group=32:pad", {7, 100}) == "");
  CHECK(misfit("int4:channel", {7, 100}) == "");
  CHECK(misfit("int4:tensor", {}) == "");
  CHECK(misfit("int4:group=32", {0}) == "");
  CHECK(misfit("int4:group=32", {5, 0}) == "");
  CHECK(misfit("int4:group=1", {}) == "");
  CHECK(misfit("int4:channel", {uint64_t{1} << 40, uint64_t{1} << 40}).find("2^58") != std::string::npos);
}

TEST_CASE("schemes: named in any case, unsupported ones say so, typos get the nearest") {
  for (const crumb::Scheme& scheme : crumb::schemes()) {
    CAPTURE(scheme.name);
    CHECK_FALSE(scheme.summary.empty());
    std::string lower(scheme.name);
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    if (scheme.spec.empty()) {
      CHECK_THROWS_WITH_AS(crumb::parse_scheme(scheme.name), doctest::Contains("not yet"), crumb::Error);
      continue;
    }
    CHECK(crumb::parse_scheme(scheme.name) == QuantSpec::parse(scheme.spec));
    CHECK(crumb::parse_scheme(lower) == QuantSpec::parse(scheme.spec));
  }
  CHECK(crumb::parse_scheme("W8A16").to_string() == "int8:channel");
  CHECK(crumb::parse_scheme("W4A16").to_string() == "int4:group=128");
  CHECK(crumb::parse_scheme("W3A16").to_string() == "int3:group=64");
  CHECK(crumb::parse_scheme("W2A16").to_string() == "int2h:group=64:search=mse");
  CHECK(crumb::parse_scheme("FP8").to_string() == "e4m3fn:channel");
  CHECK(crumb::parse_scheme("MXFP8").block_format->name == "mxfp8_e4m3");
  try {
    crumb::parse_scheme("W4A61");
    FAIL("no error");
  } catch (const crumb::Error& error) {
    CHECK(error.kind() == crumb::ErrorKind::kUsage);
    CHECK(std::string(error.what()).find("did you mean 'W4A") != std::string::npos);
  }
}
