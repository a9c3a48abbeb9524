// Tensors that are read ahead of the work: every slice in its turn, rewinding, errors, and no hanging whoever
// stops first.
#include "quant/slices/slice_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "formats/safetensors/safetensors.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::Checkpoint;
using crumb::EntryStream;
using crumb::Slab;
using crumb::SliceJob;
using crumb::SliceReader;
using crumb::testing::normal_values;
using crumb::testing::says;

namespace {

/// A safetensors file of F32 and F16 tensors with so many values each.
class Source {
 public:
  explicit Source(const std::vector<size_t>& sizes) {
    std::vector<crumb::TensorDescription> described;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool half = i % 2 == 1;
      std::vector<float> values(sizes[i]);
      std::string bytes;
      for (size_t k = 0; k < values.size(); ++k) {
        // Small integers are float16 with a pattern that is easily written: 1024 + n has the mantissa n.
        values[k] = half ? static_cast<float>(1024 + (k * 7 + i) % 1000) : static_cast<float>(k) + 0.25F;
        if (half) {
          const auto pattern = static_cast<uint16_t>(25u << 10 | (k * 7 + i) % 1000);
          bytes.append(reinterpret_cast<const char*>(&pattern), 2);
        } else {
          bytes.append(reinterpret_cast<const char*>(&values[k]), 4);
        }
      }
      described.push_back({std::string(1, static_cast<char>('a' + i)),
                           half ? crumb::DType::kF16 : crumb::DType::kF32,
                           {sizes[i]}});
      values_.push_back(std::move(values));
      bytes_.push_back(std::move(bytes));
    }
    crumb::SafetensorsWriter file(path(), described);
    for (const crumb::TensorDescription& next : file.tensors()) {
      file.write(next.name, std::as_bytes(std::span(bytes_[static_cast<size_t>(next.name[0] - 'a')])));
    }
    file.commit();
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(path()).take());
  }

  std::filesystem::path path() const { return dir_.path() / "m.safetensors"; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const std::vector<float>& values(size_t i) const { return values_[i]; }
  const std::string& bytes(size_t i) const { return bytes_[i]; }
  const crumb::TensorEntry& entry(size_t i) const { return checkpoint_->tensors()[i]; }
  std::vector<SliceJob> jobs(uint64_t slice_bytes) const {
    std::vector<SliceJob> jobs;
    for (const crumb::TensorEntry& entry : checkpoint_->tensors()) jobs.push_back({&entry, slice_bytes});
    return jobs;
  }

 private:
  crumb::testing::TempDir dir_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<std::vector<float>> values_;
  std::vector<std::string> bytes_;
};

std::string text_of(const Slab& slab) {
  return {reinterpret_cast<const char*>(slab.bytes().data()), slab.bytes().size()};
}

std::string rest_of(SliceReader& reader, size_t job) {
  std::string all;
  for (Slab slab = reader.next(job); !slab.empty(); slab = reader.next(job)) all += text_of(slab);
  return all;
}

/// All values, in slices.
std::vector<float> walk(EntryStream& stream, uint64_t slice, uint64_t most = ~uint64_t{0}) {
  std::vector<float> all;
  while (all.size() < most) {
    const std::span<const float> piece = stream.next(slice);
    if (piece.empty()) break;
    all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}

}  // namespace

TEST_CASE("every slice in its turn, whatever may wait") {
  const Source source({1000, 0, 1, 77, 5000, 3, 0});
  for (const uint64_t slice : {4, 100, 4096, 1 << 20}) {
    for (const uint64_t waiting : {1, 5000, 1 << 24}) {
      SliceReader reader(source.checkpoint(), source.jobs(slice), waiting);
      for (size_t i = 0; i < 7; ++i) CHECK(rest_of(reader, i) == source.bytes(i));
    }
  }
}

TEST_CASE("rewinding at any place") {
  const Source source({1000, 501, 2000});
  std::mt19937 engine(3);
  for (int round = 0; round < 60; ++round) {
    SliceReader reader(source.checkpoint(), source.jobs(400), round % 2 ? 1 : 100000);
    for (size_t i = 0; i < 3; ++i) {
      for (int again = 0; again < 3; ++again) {
        const size_t slices = engine() % 5 + 1;
        std::string begin;
        size_t taken = 0;
        for (Slab slab = reader.next(i); !slab.empty(); slab = reader.next(i)) {
          begin += text_of(slab);
          if (++taken == slices) break;
          if (taken * 400 >= source.bytes(i).size()) break;  // not the end: that is the next job's turn
        }
        CHECK(begin == source.bytes(i).substr(0, begin.size()));
        if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(engine() % 300));
        reader.rewind(i);
      }
      CHECK(rest_of(reader, i) == source.bytes(i));
    }
  }
}

TEST_CASE("streams of values, walked as often as wanted") {
  const Source source({1000, 501, 1, 0, 3000, 2049});
  for (const uint64_t slice : {1, 64, 500, 1 << 20}) {
    std::vector<SliceJob> jobs;
    for (size_t i = 0; i < 6; ++i)
      jobs.push_back(
          {&source.entry(i), std::min<uint64_t>(slice, source.values(i).size()) * (i % 2 ? 2 : 4)});
    SliceReader reader(source.checkpoint(), jobs, 2000);
    for (size_t i = 0; i < 6; ++i) {
      EntryStream stream(reader, i, source.entry(i), 2);
      stream.rewind();
      for (int again = 0; again < 3; ++again) {
        CHECK(walk(stream, slice) == source.values(i));
        stream.rewind();
        stream.rewind();
        walk(stream, slice, 700);
        stream.rewind();
      }
      CHECK(walk(stream, slice) == source.values(i));
      CHECK(stream.next(slice).empty());
      stream.finish();
    }
  }
}

TEST_CASE("streams of values need no rewinding before they are read") {
  const Source source({1000, 501});
  SliceReader reader(source.checkpoint(), {{&source.entry(0), 400}, {&source.entry(1), 200}}, 2000);
  for (size_t i = 0; i < 2; ++i) {
    EntryStream stream(reader, i, source.entry(i), 1);
    CHECK(walk(stream, 100) == source.values(i));
    stream.finish();
  }
}

TEST_CASE("a tensor of one slice is read once, however often it is walked") {
  for (size_t i = 0; i < 2; ++i) {
    const Source source({1000, 501});
    SliceReader reader(source.checkpoint(), {{&source.entry(i), 1 << 20}}, 1);
    EntryStream stream(reader, 0, source.entry(i), 1);
    stream.next(1 << 20);
    // Whoever reads it again finds it changed.
    std::fstream file(source.path(), std::ios::in | std::ios::out | std::ios::binary);
    std::string all{std::istreambuf_iterator<char>(file), {}};
    const size_t place = all.find(source.bytes(i));
    REQUIRE(place != std::string::npos);
    file.seekp(static_cast<std::streamoff>(place));
    file << std::string(source.bytes(i).size(), '\x11');
    file.close();
    for (int again = 0; again < 3; ++again) {
      stream.rewind();
      CHECK(walk(stream, 1 << 20) == source.values(i));
    }
  }
}

TEST_CASE("what reading meets reaches the one who takes") {
  const Source source({1000, 4000});
  SliceReader reader(source.checkpoint(), source.jobs(400), 1);
  CHECK(text_of(reader.next(0)) == source.bytes(0).substr(0, 400));
  std::filesystem::resize_file(source.path(), 500);
  const auto take = [&] {
    rest_of(reader, 0);
    rest_of(reader, 1);
  };
  CHECK_THROWS_AS(take(), crumb::Error);
  CHECK_THROWS_AS(reader.next(0), crumb::Error);  // and again
  reader.rewind(0);
  CHECK_THROWS_AS(reader.next(0), crumb::Error);
}

TEST_CASE("slices that were read before an error are given first") {
  const Source source({1000, 4000});
  SliceReader reader(source.checkpoint(), source.jobs(400), 1 << 20);
  CHECK(rest_of(reader, 0) == source.bytes(0));
  CHECK(rest_of(reader, 1) == source.bytes(1));
  std::filesystem::remove(source.path());
  reader.rewind(1);
  CHECK_THROWS_AS(reader.next(1), crumb::Error);
}

TEST_CASE("who takes may leave at any time") {
  const Source source({1000, 501, 2000});
  for (int round = 0; round < 100; ++round) {
    SliceReader reader(source.checkpoint(), source.jobs(40), round % 2 ? 1 : 100000);
    for (int i = 0; i < round % 20; ++i) reader.next(0);
    if (round % 7 == 0) reader.rewind(0);
  }
}
