// SPDX-License-Identifier: Apache-2.0
// Serves the units of a systemd, with their ManagedOOM properties, on a socket of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "support/temp_tree.h"

namespace forestall::test {

struct FakeUnit {
  std::string state = "active";
  std::string cgroup = "";
  std::string swap = "auto";
  std::string pressure = "auto";
  std::uint32_t limit = 0;
  std::optional<std::uint64_t> duration = std::nullopt;  // nothing: an old systemd
  std::string error = "";  // the name of the error that a property is answered with
};

using FakeUnitTable = std::map<std::string, FakeUnit>;

// One client at a time.
class FakeUnitBus {
 public:
  explicit FakeUnitBus(FakeUnitTable units);
  FakeUnitBus(const FakeUnitBus&) = delete;
  FakeUnitBus& operator=(const FakeUnitBus&) = delete;
  ~FakeUnitBus();

  [[nodiscard]] std::string address() const { return "unix:path=" + folder_ / "bus"; }

  // Changes a unit without a signal, as systemd does for its ManagedOOM properties.
  void set(const std::string& name, FakeUnit unit);
  void remove(const std::string& name);
  // The signals of systemd.
  void signal_change(const std::string& name) { post(Order::change, name); }
  void signal_new(const std::string& name) { post(Order::new_unit, name); }
  void signal_reloaded() { post(Order::reloaded, ""); }
  // systemd's name on the bus gets another owner, as by a daemon-reexec.
  void signal_reexec() { post(Order::reexec, ""); }
  // The signals of systemd and of the bus, sent to the client by another one.
  void signal_forged(const std::string& name) { post(Order::forged, name); }
  // A new unit's signal with this path.
  void signal_new_at(const std::string& path) { post(Order::new_path, path); }
  // So many forged signals come before the next property.
  void flood(std::size_t signals);
  // Ends the connection, and accepts no other one until accept_again().
  void go_away();
  void accept_again();

  // The reply to the next requests of a name: 1, the client owns it; 3, another one does.
  void set_name_reply(std::uint32_t reply);
  // Waits for a signal Killed of systemd-oomd: "CGROUP REASON". Each one once.
  [[nodiscard]] std::string next_killed();

  // Units whose properties were read since the start, in order; each reading once.
  [[nodiscard]] std::vector<std::string> read_units() const;

  // For the callbacks.
  [[nodiscard]] std::optional<FakeUnit> unit(const std::string& name) const;
  [[nodiscard]] FakeUnitTable units() const;
  void note_read(const std::string& name);
  void note_killed(std::string killed);
  [[nodiscard]] std::uint32_t name_reply() const;
  [[nodiscard]] std::size_t take_flood();

 private:
  enum class Order { change, new_unit, new_path, reloaded, reexec, forged };

  void post(Order order, const std::string& name);
  void serve();
  void serve_connection(UniqueFd connection);
  void open();

  TempTree folder_;
  UniqueFd listening_;
  UniqueFd wake_;  // eventfd
  mutable std::mutex mutex_;
  std::condition_variable closed_changed_;
  FakeUnitTable units_;
  std::vector<std::pair<Order, std::string>> orders_;
  std::vector<std::string> read_;
  std::size_t flood_ = 0;
  std::uint32_t name_reply_ = 1;
  std::deque<std::string> killed_;
  std::condition_variable killed_changed_;
  bool away_ = false;
  bool closed_ = false;  // because it is away
  bool stop_ = false;
  std::thread thread_;  // last
};

}  // namespace forestall::test
