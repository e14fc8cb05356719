// SPDX-License-Identifier: Apache-2.0
// The ManagedOOM properties of the active units of systemd, by its D-Bus API.
//
// systemd signals no change of these properties: a client reads them of a unit whose state changed,
// and of all units from time to time. It reads loaded units only, because systemd loads a unit when
// its path is used, and reports that as a new unit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "clients/bus_connection.h"

namespace forestall::clients {

struct ManagedUnit {
  std::string name;
  std::string cgroup;  // path from the root; empty: it has none
  bool swap = false;   // ManagedOOMSwap=kill
  bool pressure = false;
  std::uint32_t limit = 0;  // of 2^32 - 1; 0: the default
  std::optional<std::chrono::microseconds> duration;

  friend bool operator==(const ManagedUnit&, const ManagedUnit&) = default;
};

// By the path of the unit's object.
using ManagedUnits = std::map<std::string, ManagedUnit>;

// Thread rule: one thread; calls wait.
class ManagedOomUnits {
 public:
  static constexpr std::size_t kUnitsMax = 16384;
  // Of one call.
  static constexpr Duration kTimeout = std::chrono::seconds(2);

  // Connects and has systemd report changes. Empty address: the system bus. `known`: what was read
  // by an earlier connection; it holds for a unit until that can be read.
  static Result<std::unique_ptr<ManagedOomUnits>> connect(const std::string& address,
                                                          ManagedUnits known);
  ManagedOomUnits(const ManagedOomUnits&) = delete;
  ManagedOomUnits& operator=(const ManagedOomUnits&) = delete;
  ~ManagedOomUnits();

  // What to poll, right after process(): what came during another call wakes no poll().
  [[nodiscard]] int fd() const;
  [[nodiscard]] short events() const;
  // Takes the signals that came. An error: the connection is of no use any more.
  [[nodiscard]] Result<void> process();
  // Whether a unit may have changed since refresh().
  [[nodiscard]] bool has_changes() const { return all_ || !changed_.empty(); }
  // Reads units that may have changed, or all of them. An error: the connection is of no use any
  // more, and units() is as before. `stopping` ends it early with an error.
  [[nodiscard]] Result<void> refresh(bool all, const std::function<bool()>& stopping);

  // Active slices, services and scopes, as far as they were ever read.
  [[nodiscard]] const ManagedUnits& units() const { return units_; }
  // Units whose properties could not be read, with the reason; the earlier ones hold.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

  // For the callbacks.
  [[nodiscard]] bool is_systemd(std::string_view sender) const { return sender == owner_; }
  void note_change(const char* path);
  void note_reload(bool begins) { all_ = all_ || !begins; }
  void note_restart() { restarted_ = true; }

 private:
  struct Listed {
    std::string name;
    std::string interface;
  };

  ManagedOomUnits(BusConnection bus, ManagedUnits known);
  [[nodiscard]] Result<void> subscribe();
  [[nodiscard]] Result<std::string> systemd_owner();
  [[nodiscard]] Result<bool> dispatch(std::uint64_t most);
  [[nodiscard]] Result<void> take_queued();
  [[nodiscard]] Result<std::map<std::string, Listed>> list();
  // Nothing: the unit is gone.
  [[nodiscard]] Result<std::optional<ManagedUnit>> read(const std::string& path,
                                                        const Listed& listed);

  const BusConnection bus_;
  std::string owner_;  // the name of systemd's connection
  ManagedUnits units_;
  std::vector<std::string> problems_;
  std::set<std::string> changed_;  // paths
  bool all_ = true;
  bool restarted_ = false;  // systemd's connection to the bus is another one
};

}  // namespace forestall::clients
