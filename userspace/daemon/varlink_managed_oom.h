// SPDX-License-Identifier: Apache-2.0
// The ManagedOOM properties of systemd's units by a subscription at PID 1, which accepts
// systemd-oomd.service only. PID 1 sends all of them first, and later each change.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clients/varlink_subscription.h"
#include "daemon/managed_oom_source.h"
#include "intake/managed_oom_reply.h"

namespace forestall::daemon {

class VarlinkManagedOom final : public ManagedOomSource {
 public:
  // More of them end the connection. PID 1 has as many units at most as are read over D-Bus, with
  // two properties each.
  static constexpr std::size_t kElementsMax = 32768;
  // PID 1's first reply.
  static constexpr Duration kReplyTimeout = std::chrono::seconds(20);

  // systemd 255 and later, then 254 and before. A systemd that was upgraded keeps its socket.
  [[nodiscard]] static std::vector<std::string> sockets_of_systemd();

  // `clock` outlives it.
  VarlinkManagedOom(const Clock& clock, std::vector<std::string> sockets,
                    Duration reply_timeout = kReplyTimeout)
      : clock_(clock), sockets_(std::move(sockets)), reply_timeout_(reply_timeout) {}

  [[nodiscard]] std::string_view name() const override { return "varlink"; }
  [[nodiscard]] bool is_connected() const override { return subscription_.has_value(); }
  [[nodiscard]] Result<void> connect() override;
  void disconnect() override { subscription_.reset(); }
  void forget() override { known_.clear(); }
  [[nodiscard]] int fd() const override { return subscription_->fd(); }
  [[nodiscard]] short events() const override;
  [[nodiscard]] Result<void> process() override;
  [[nodiscard]] std::optional<MonotonicTime> ready_by() const override;
  [[nodiscard]] bool has_changes() const override { return has_changes_; }
  [[nodiscard]] Result<void> refresh(bool all, const std::function<bool()>& stopping) override;
  [[nodiscard]] std::vector<ReportedElement> elements() const override;
  [[nodiscard]] std::vector<std::string> problems() const override;

 private:
  using Key = std::pair<std::string, rulesets::ManagedOomProperty>;

  [[nodiscard]] Result<void> apply(const intake::ManagedOomReply& reply);

  const Clock& clock_;
  const std::vector<std::string> sockets_;
  const Duration reply_timeout_;
  std::optional<clients::VarlinkSubscription> subscription_;
  MonotonicTime connected_{};
  bool replied_ = false;      // since connect()
  bool has_changes_ = false;  // since refresh()
  std::map<Key, rulesets::ManagedOomElement> known_;
  std::vector<std::string> problems_;  // since connect()
};

// Whether PID 1 takes a process in this cgroup (its path from the root) for systemd-oomd.service.
[[nodiscard]] bool is_systemd_oomd(std::string_view cgroup);

}  // namespace forestall::daemon
