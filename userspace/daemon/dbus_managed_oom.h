// SPDX-License-Identifier: Apache-2.0
// The ManagedOOM properties of systemd's units over D-Bus.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clients/managed_oom_units.h"
#include "daemon/managed_oom_source.h"

namespace forestall::daemon {

class DbusManagedOom final : public ManagedOomSource {
 public:
  // `address`: of the bus; empty: the system bus.
  explicit DbusManagedOom(std::string address) : address_(std::move(address)) {}

  [[nodiscard]] std::string_view name() const override { return "dbus"; }
  [[nodiscard]] bool is_connected() const override { return units_ != nullptr; }
  [[nodiscard]] Result<void> connect() override;
  void disconnect() override { units_.reset(); }
  void forget() override { known_.clear(); }
  [[nodiscard]] int fd() const override { return units_->fd(); }
  [[nodiscard]] short events() const override { return units_->events(); }
  [[nodiscard]] Result<void> process() override { return units_->process(); }
  [[nodiscard]] std::optional<MonotonicTime> ready_by() const override { return std::nullopt; }
  [[nodiscard]] bool has_changes() const override { return units_->has_changes(); }
  [[nodiscard]] Result<void> refresh(bool all, const std::function<bool()>& stopping) override;
  [[nodiscard]] std::vector<ReportedElement> elements() const override;
  [[nodiscard]] std::vector<std::string> problems() const override;

 private:
  const std::string address_;
  std::unique_ptr<clients::ManagedOomUnits> units_;  // null: not connected
  clients::ManagedUnits known_;                      // as last read
};

}  // namespace forestall::daemon
