// SPDX-License-Identifier: Apache-2.0
// Where systemd's ManagedOOM properties come from. Each source has the same elements for the same
// properties, so both make the same rulesets.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "rulesets/managed_oom.h"

namespace forestall::daemon {

// A property with the mode kill.
struct ReportedElement {
  std::string reported_by;  // in messages: the unit, or its cgroup
  rulesets::ManagedOomElement element;

  friend bool operator==(const ReportedElement&, const ReportedElement&) = default;
};

// Thread rule: one thread. After an error of a call the source is not connected; elements() stay as
// they are until the next connection has read all of them.
class ManagedOomSource {
 public:
  ManagedOomSource() = default;
  ManagedOomSource(const ManagedOomSource&) = delete;
  ManagedOomSource& operator=(const ManagedOomSource&) = delete;
  virtual ~ManagedOomSource() = default;

  // dbus or varlink, as `forestall status` shows it. Any thread.
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool is_connected() const = 0;
  [[nodiscard]] virtual Result<void> connect() = 0;
  virtual void disconnect() = 0;
  // There are no elements, until they are read again.
  virtual void forget() = 0;

  // What to poll, right after process(). REQUIRES of all of these: is_connected().
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual short events() const = 0;
  // Takes what came.
  [[nodiscard]] virtual Result<void> process() = 0;
  // When the peer must have sent what refresh() needs; nothing: it has.
  [[nodiscard]] virtual std::optional<MonotonicTime> ready_by() const = 0;
  // Whether elements() may change by refresh().
  [[nodiscard]] virtual bool has_changes() const = 0;
  // `all`: also what has no signs of a change. `stopping` ends it early with an error.
  [[nodiscard]] virtual Result<void> refresh(bool all, const std::function<bool()>& stopping) = 0;

  [[nodiscard]] virtual std::vector<ReportedElement> elements() const = 0;
  // What could not be read; its earlier state holds.
  [[nodiscard]] virtual std::vector<std::string> problems() const = 0;
};

}  // namespace forestall::daemon
