// Going on with a packed file that was left: only what still holds is taken over, and the file is the same.
#include "formats/crumb_file/writer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/formats/crumb_file/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::read_all;
using testing::TempDir;
using testing::write_all;
namespace fs = std::filesystem;

CrumbHeader kept_plan(const std::vector<uint64_t>& sizes) {
  CrumbHeader plan;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PackedTensor tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.dtype = DType::kU8;
    tensor.shape = {sizes[i]};
    plan.tensors.push_back(std::move(tensor));
  }
  plan.files.push_back({"config.json", Blob{.raw = 2}});
  return plan;
}

const std::vector<uint64_t> kSizes = {100, 0, 64, 1, 100000, 333, 128};

/// What compresses and what does not, in turn.
std::vector<std::byte> part(size_t i) {
  if (i == kSizes.size()) return {std::byte{'{'}, std::byte{'}'}};
  std::mt19937 engine(static_cast<unsigned>(i));
  std::vector<std::byte> bytes(kSizes[i]);
  for (std::byte& b : bytes) b = static_cast<std::byte>(i % 2 ? engine() : engine() % 3);
  return bytes;
}

/// A file that was left after `count` parts and some more bytes, and what was recorded of it.
std::vector<Blob> leave(const fs::path& path, int zstd, size_t count) {
  CrumbWriter writer(path, kept_plan(kSizes), zstd);
  writer.keep_partial();
  std::vector<Blob> blobs;
  for (size_t i = 0; i < count; ++i) {
    writer.write(part(i));
    blobs.push_back(writer.blob(i));
  }
  if (count < kSizes.size()) {
    std::vector<std::byte> begun = part(count);
    begun.resize(begun.size() / 2);
    writer.append(begun);
  }
  return blobs;
}

std::string finished(CrumbWriter& writer, const fs::path& path) {
  for (size_t i = writer.done(); i < writer.part_count(); ++i) writer.write(part(i));
  const uint64_t size = writer.finish();
  CHECK(size == fs::file_size(path));
  return read_all(path);
}

struct Left {
  TempDir dir;
  fs::path path = dir.path() / "m.crumb", partial = dir.path() / "m.crumb.partial";
};

TEST_CASE("packed file: what a reader refuses, the writer refuses before it writes") {
  const TempDir folder;
  const fs::path path = folder.path() / "m.crumb";
  const auto why = [&](auto change) -> std::string {
    CrumbHeader plan = kept_plan({1, 1});
    change(plan);
    std::string message;
    try {
      CrumbWriter(path, plan);
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(fs::is_empty(folder.path()));
    return message;
  };
  const auto names = [&](const std::string& name) {
    return why([&](CrumbHeader& p) { p.tensors[1].name = name; });
  };
  const auto paths = [&](const std::vector<std::string>& all) {
    return why([&](CrumbHeader& p) {
      p.files.clear();
      for (const std::string& one : all) p.files.push_back({one, Blob{}});
    });
  };
  const auto shapes = [&](const std::vector<uint64_t>& shape) {
    return why([&](CrumbHeader& p) { p.tensors[1].shape = shape; });
  };
  const auto says = [](const std::string& message, const char* part) {
    return message.find(part) != std::string::npos;
  };
  CHECK(names("t1") == "");
  CHECK(names("t0") == "tensor 't0' appears twice");
  CHECK(names("") == "a tensor has an empty name");
  CHECK(says(names("\xff"), "UTF-8"));
  CHECK(says(why([](CrumbHeader& p) { p.model = "\xed\xa0\x80"; }), "UTF-8"));
  CHECK(paths({"a", "b", "a-", "ab", "\xc2\xa0", "c/a"}) == "");
  CHECK(paths({"a/b", "b", "a-", "a/b/c"}) ==
        "file 'a/b/c' lies in 'a/b', which is a file and cannot be a folder");
  CHECK(paths({"b", "a", "b"}) == "file 'b' appears twice");
  for (const char* bad :
       {"", ".", "a/..", "a//b", "/a", "a/", "a\\b", "a:b", "\x7f", "a\n", "\xc2\x80", "\xc2\x9f", "\xff"}) {
    CAPTURE(bad);
    CHECK(says(paths({bad}), "its path"));
  }
  const uint64_t most = kMostElements;
  // A plan that weighs encodings of one tensor names it several times.
  CrumbHeader weighed = kept_plan({1, 1});
  weighed.tensors[1].name = weighed.tensors[0].name;
  CHECK(place_uncompressed(weighed) > 0);
  CHECK(shapes({0, most}) == "");
  CHECK(says(shapes({2, 0, most}), "2^58"));
  CHECK(says(shapes({0, most, most}), "2^58"));
  CHECK(shapes(std::vector<uint64_t>(64, 1)) == "");
  CHECK(says(shapes(std::vector<uint64_t>(65, 1)), "64 axes"));
}

TEST_CASE("packed file: as many small tensors as the header has room for are written and read") {
  const TempDir folder;
  const fs::path path = folder.path() / "m.crumb";
  const QuantSpec spec = QuantSpec::parse("int4:tensor");
  const std::vector<uint64_t> shape = {1};
  const QuantizedTensor tensor = quantize(spec, std::vector<float>{1}, shape, {.threads = 1});
  for (const bool encoded : {false, true}) {
    CrumbHeader plan;
    for (size_t i = 0; i < (encoded ? 13000u : 35000u); ++i) {
      PackedTensor kept;
      kept.name = std::to_string(i);
      kept.dtype = DType::kU8;
      kept.shape = shape;
      plan.tensors.push_back(
          encoded ? plan_encoded(kept.name, DType::kF32, shape, spec.to_string(), spec.encoding(shape))
                  : kept);
    }
    CrumbWriter writer(path, plan);
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      if (encoded) {
        write_encoded(writer, tensor);
      } else {
        writer.write(std::vector<std::byte>(1));
      }
    }
    writer.finish();
    CHECK(testing::verdict(path) == "");
    CHECK(CrumbFile::open(path).take().header().tensors.size() == plan.tensors.size());
  }
}

}  // namespace

TEST_CASE("a file that is continued after any part is the same file") {
  for (const int zstd : {0, 3}) {
    const Left left;
    CrumbWriter whole(left.path, kept_plan(kSizes), zstd);
    const std::string expected = finished(whole, left.path);
    for (size_t count = 0; count <= kSizes.size() + 1; ++count) {
      const std::vector<Blob> blobs = leave(left.path, zstd, count);
      CrumbWriter writer(left.path, kept_plan(kSizes), zstd, LeftOver::kContinue);
      for (const Blob& blob : blobs) CHECK(writer.take_over({&blob, 1}));
      CHECK(writer.done() == count);
      CHECK(finished(writer, left.path) == expected);
    }
    // Several at once; and some of them only.
    const std::vector<Blob> blobs = leave(left.path, zstd, 6);
    CrumbWriter writer(left.path, kept_plan(kSizes), zstd, LeftOver::kContinue);
    CHECK(writer.take_over(std::span(blobs).first(4)));
    CHECK(finished(writer, left.path) == expected);
  }
}

TEST_CASE("nothing is taken over where a bit of it differs, and the file is still the same") {
  for (const int zstd : {0, 3}) {
    const Left left;
    CrumbWriter whole(left.path, kept_plan(kSizes), zstd);
    const std::string expected = finished(whole, left.path);
    const std::vector<Blob> blobs = leave(left.path, zstd, 6);
    const std::string partial = read_all(left.partial);
    const uint64_t header_end = kCrumbPreamble + write_crumb_header(kept_plan(kSizes)).size();
    std::mt19937 engine(7);
    for (int round = 0; round < 300; ++round) {
      std::string damaged = partial;
      const size_t at = round < 20 ? header_end + static_cast<size_t>(round) : engine() % partial.size();
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << engine() % 8);
      write_all(left.partial, round % 10 == 9 ? partial.substr(0, at) : damaged);
      CrumbWriter writer(left.path, kept_plan(kSizes), zstd, LeftOver::kContinue);
      for (size_t i = 0; i < blobs.size() && writer.take_over({&blobs[i], 1}); ++i) {
      }
      REQUIRE(finished(writer, left.path) == expected);
      fs::remove(left.path);
    }
  }
}

TEST_CASE("records that cannot be are not taken over") {
  const Left left;
  const std::vector<Blob> blobs = leave(left.path, 0, 6);
  CrumbWriter writer(left.path, kept_plan(kSizes), 0, LeftOver::kContinue);
  const auto refuses = [&](auto change) {
    std::vector<Blob> changed(blobs.begin(), blobs.begin() + 3);
    change(changed);
    return !writer.take_over(changed) && writer.done() == 0;
  };
  CHECK(refuses([](auto& b) { b[0].crc ^= 1; }));
  CHECK(refuses([](auto& b) { b[2].crc ^= 1; }));
  CHECK(refuses([](auto& b) { b[0].offset += 64; }));
  CHECK(refuses([](auto& b) { b[0].offset = ~uint64_t{0} - 63; }));
  CHECK(refuses([](auto& b) { b[1].stored = ~uint64_t{0}; }));
  CHECK(refuses([](auto& b) { b[2].stored += uint64_t{1} << 40; }));
  CHECK(refuses([](auto& b) { b[0].raw += 1; }));
  CHECK(refuses([](auto& b) { b.resize(1000, b[0]); }));
  CHECK(refuses([](auto& b) { b.erase(b.begin()); }));
  CHECK(writer.take_over({}));
  CHECK(writer.take_over(blobs));
}

TEST_CASE("what is foreseen without compression is what is written, and with it no less") {
  const Left left;
  for (const int zstd : {0, 1, 19}) {
    CrumbHeader plan = kept_plan(kSizes);
    const uint64_t foreseen = place_uncompressed(plan);
    CrumbWriter writer(left.path, kept_plan(kSizes), zstd);
    finished(writer, left.path);
    if (zstd == 0) {
      CHECK(foreseen == fs::file_size(left.path));
      for (size_t i = 0; i < plan.tensors.size(); ++i)
        CHECK(plan.tensors[i].part(Part::kData)->offset ==
              writer.header().tensors[i].part(Part::kData)->offset);
    } else {
      CHECK(foreseen >= fs::file_size(left.path));
    }
  }
}

}  // namespace crumb
