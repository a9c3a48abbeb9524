#include "libtorch/peers.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/text/number.h"

#ifdef USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

namespace crumb::libtorch {
namespace {

constexpr std::int64_t kValuesAtOnce = std::int64_t{16} << 20;  ///< in one message: 64 MB

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::optional<std::string>(text) : std::nullopt;
}

int number_in(const char* name, int least, int most) {
  const std::optional<std::string> text = variable(name);
  const auto number = text ? parse_number<int>(*text) : std::nullopt;
  if (number && *number >= least && *number <= most) return *number;
  throw usage_error("WORLD_SIZE says that several processes train together; expected " + std::string(name) +
                    " to be a number from " + std::to_string(least) + " to " + std::to_string(most) +
                    ", found " + (text ? quote_text(*text) : std::string("nothing")) + " (torchrun sets it)");
}

[[noreturn]] void fail(const std::exception& error, const std::string& what) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  throw Error(what + ": " + (own ? own->what_without_backtrace() : error.what()));
}

}  // namespace

#ifdef USE_C10D_GLOO

class Peers::Group {
 public:
  Group(const std::string& address, int port, int rank, int count) {
    constexpr std::chrono::milliseconds kWaiting = std::chrono::hours(24);
    try {
      const auto store = meeting_place(address, port, rank);
      // Another try of torchrun's finds the addresses of the one before in its store.
      const auto own = c10::make_intrusive<c10d::PrefixStore>(
          "crumb" + variable("TORCHELASTIC_RESTART_COUNT").value_or("0"), store);
      meet(*own, rank, count);
      const auto how = c10d::ProcessGroupGloo::Options::create(kWaiting);
      const std::optional<std::string> interface = variable("GLOO_SOCKET_IFNAME");
      how->devices.push_back(interface ? c10d::ProcessGroupGloo::createDeviceForInterface(*interface)
                                       : c10d::ProcessGroupGloo::createDefaultDevice());
      how->threads = 2;
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(own, rank, count, how);
    } catch (const std::exception& error) {
      fail(error, "the other processes of the run were not found at " + address + ":" + std::to_string(port));
    }
  }

  void add_up(at::Tensor& values) const {
    wait([&](std::vector<at::Tensor>& tensors) { return group_->allreduce(tensors); }, values);
  }
  void give_out(at::Tensor& values) const {
    wait([&](std::vector<at::Tensor>& tensors) { return group_->broadcast(tensors); }, values);
  }

 private:
  static constexpr std::chrono::milliseconds kMeeting = std::chrono::minutes(10),
                                             kGlance = std::chrono::seconds(4),
                                             kPause = std::chrono::milliseconds(50);

  /// The first process', at which the others call until it is there. In glances, since waiting itself heeds
  /// nobody.
  static c10::intrusive_ptr<c10d::TCPStore> meeting_place(const std::string& address, int port, int rank) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(port);
    options.isServer = rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True";
    options.waitWorkers = false;
    options.timeout = kGlance;
    const auto end = std::chrono::steady_clock::now() + kMeeting;
    while (true) {
      check_interrupt();
      try {
        auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
        store->setTimeout(kMeeting);
        return store;
      } catch (const std::exception&) {
        if (options.isServer || std::chrono::steady_clock::now() > end) throw;
      }
    }
  }

  /// Returns when all are there.
  static void meet(c10d::Store& store, int rank, int count) {
    const auto name_of = [](int process) { return "here" + std::to_string(process); };
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) all.push_back(name_of(i));
    store.set(name_of(rank), std::vector<std::uint8_t>{1});
    const auto end = std::chrono::steady_clock::now() + kMeeting;
    while (!store.check(all)) {
      check_interrupt();
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error("not all of them came in ten minutes");
      std::this_thread::sleep_for(kPause);
    }
  }

  template <class Start>
  void wait(const Start& start, at::Tensor& values) const {
    try {
      std::vector<at::Tensor> tensors{values};
      start(tensors)->wait();
      values = tensors[0];
    } catch (const std::exception& error) {
      fail(error, "another process of the run is gone");
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

#else

class Peers::Group {
 public:
  Group(const std::string&, int, int, int) {
    throw usage_error(
        "WORLD_SIZE says that several processes train together, but Crumb was built without gloo's headers "
        "(Debian's libgloo-dev)");
  }
  void add_up(at::Tensor&) const {}
  void give_out(at::Tensor&) const {}
};

#endif

Peers::Peers() = default;
Peers::Peers(Peers&&) noexcept = default;
Peers::~Peers() = default;

Peers Peers::of_environment() {
  Peers peers;
  if (!variable("WORLD_SIZE")) return peers;
  peers.count_ = number_in("WORLD_SIZE", 1, 1 << 16);
  if (peers.is_alone()) return peers;
  peers.rank_ = number_in("RANK", 0, peers.count_ - 1);
  const int port = number_in("MASTER_PORT", 1, 65535);
  peers.group_ =
      std::make_unique<Group>(variable("MASTER_ADDR").value_or("127.0.0.1"), port, peers.rank_, peers.count_);
  return peers;
}

/// act(flat) for tensors one after the other as one, some at a time, and what it made of them back.
template <class Do>
void Peers::in_portions(const std::vector<at::Tensor>& tensors, const Do& act) const {
  if (is_alone()) return;
  const at::NoGradGuard no_gradients;
  for (std::size_t begin = 0; begin < tensors.size();) {
    std::vector<at::Tensor> rows;
    std::int64_t values = 0;
    std::size_t end = begin;
    for (; end < tensors.size() && (end == begin || values + tensors[end].numel() <= kValuesAtOnce); ++end) {
      rows.push_back(tensors[end].flatten());
      values += tensors[end].numel();
    }
    at::Tensor flat = at::cat(rows).to(at::kCPU);
    act(flat);
    std::int64_t place = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const at::Tensor& tensor = tensors[i];
      tensor.copy_(flat.narrow(0, place, tensor.numel()).view(tensor.sizes()));
      place += tensor.numel();
    }
    begin = end;
  }
}

void Peers::add_up(const std::vector<at::Tensor>& tensors) const {
  in_portions(tensors, [&](at::Tensor& flat) { group_->add_up(flat); });
}

void Peers::give_out(const std::vector<at::Tensor>& tensors) const {
  in_portions(tensors, [&](at::Tensor& flat) { group_->give_out(flat); });
}

double Peers::add_up(double value) const {
  if (is_alone()) return value;
  const at::Tensor sum = at::full({1}, value, at::kDouble);
  add_up(std::vector<at::Tensor>{sum});
  return sum.item<double>();
}

}  // namespace crumb::libtorch
