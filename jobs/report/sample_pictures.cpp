#include "jobs/report/sample_pictures.h"

#include <algorithm>
#include <cmath>

#include "report/numbers.h"

namespace crumb::jobs {
namespace {

constexpr std::size_t kMostSide = 96, kLeastSide = 4;
constexpr std::size_t kMostBytes = std::size_t{400}
                                   << 10;  // of all pixels of a page: 530 kB as text where none repeats

/// Where the pixels of a picture lie in an array.
struct Form {
  std::size_t width = 0, height = 0, channels = 1;
  std::size_t of_x = 1, of_y = 1, of_channel = 0;  ///< steps
};

bool are_channels(std::int64_t count) { return count == 1 || count == 3 || count == 4; }

std::optional<Form> form_of(const std::vector<std::int64_t>& shape) {
  const auto size = [&](std::size_t axis) { return static_cast<std::size_t>(shape[axis]); };
  Form form;
  if (shape.size() == 2) {
    form = {.width = size(1), .height = size(0), .of_y = size(1)};
  } else if (shape.size() == 3 && are_channels(shape[0])) {
    form = {.width = size(2),
            .height = size(1),
            .channels = size(0),
            .of_y = size(2),
            .of_channel = size(1) * size(2)};
  } else if (shape.size() == 3 && are_channels(shape[2])) {
    form = {.width = size(1),
            .height = size(0),
            .channels = size(2),
            .of_x = size(2),
            .of_y = size(1) * size(2),
            .of_channel = 1};
  } else {
    return std::nullopt;
  }
  if (std::min(form.width, form.height) < kLeastSide) return std::nullopt;
  return form;
}

}  // namespace

std::optional<report::Picture> picture_of(const SampleInput& input) {
  const std::optional<Form> form = form_of(input.shape);
  if (!form || !std::ranges::all_of(input.values, [](float value) { return std::isfinite(value); }))
    return std::nullopt;
  const std::size_t channels = form->channels == 1 ? 1 : 3;
  const std::size_t larger = std::max(form->width, form->height);
  const double shrink = std::max(1.0, static_cast<double>(larger) / static_cast<double>(kMostSide));
  const auto shrunk = [&](std::size_t side) {
    return std::max<std::size_t>(static_cast<std::size_t>(std::floor(static_cast<double>(side) / shrink)), 1);
  };
  report::Picture picture{.width = shrunk(form->width), .height = shrunk(form->height), .channels = channels};
  float least = INFINITY, greatest = -INFINITY;
  const auto at = [&](std::size_t x, std::size_t y, std::size_t channel) {
    return input.values[x * form->of_x + y * form->of_y + channel * form->of_channel];
  };
  for (std::size_t y = 0; y < form->height; ++y)
    for (std::size_t x = 0; x < form->width; ++x)
      for (std::size_t c = 0; c < channels; ++c) {
        least = std::min(least, at(x, y, c));
        greatest = std::max(greatest, at(x, y, c));
      }
  const double width = static_cast<double>(greatest) - static_cast<double>(least);
  for (std::size_t y = 0; y < picture.height; ++y)
    for (std::size_t x = 0; x < picture.width; ++x)
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t left = x * form->width / picture.width,
                          right = (x + 1) * form->width / picture.width;
        const std::size_t top = y * form->height / picture.height,
                          bottom = (y + 1) * form->height / picture.height;
        double sum = 0;
        for (std::size_t j = top; j < bottom; ++j)
          for (std::size_t i = left; i < right; ++i) sum += static_cast<double>(at(i, j, c));
        const double mean = sum / static_cast<double>((right - left) * (bottom - top));
        const double share = width > 0 ? (mean - static_cast<double>(least)) / width : .5;
        picture.pixels.push_back(static_cast<std::uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * 255)));
      }
  picture.caption = input.name + ", " + report::short_number(static_cast<double>(least)) + " to " +
                    report::short_number(static_cast<double>(greatest));
  return picture;
}

std::vector<report::Picture> PictureBudget::pictures_of(const std::vector<SampleInput>& inputs) {
  std::vector<report::Picture> made;
  for (const SampleInput& input : inputs) {
    std::optional<report::Picture> picture = picture_of(input);
    if (!picture) continue;
    if (pixels_ + picture->pixels.size() > kMostBytes) {
      ++left_out_;
      continue;
    }
    pixels_ += picture->pixels.size();
    made.push_back(std::move(*picture));
  }
  return made;
}

}  // namespace crumb::jobs
