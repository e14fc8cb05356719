// SPDX-License-Identifier: Apache-2.0
#include "daemon/varlink_managed_oom.h"

#include <fmt/format.h>
#include <poll.h>

#include "base/parse.h"
#include "base/printable.h"

namespace forestall::daemon {
namespace {

constexpr std::string_view kSubscribe = "io.systemd.ManagedOOM.SubscribeManagedOOMCGroups";
constexpr std::size_t kProblemsMax = 16;

}  // namespace

std::vector<std::string> VarlinkManagedOom::sockets_of_systemd() {
  return {"/run/systemd/io.systemd.ManagedOOM", "/run/systemd/io.system.ManagedOOM"};
}

Result<void> VarlinkManagedOom::connect() {
  subscription_.reset();
  subscription_ = TRY(clients::VarlinkSubscription::start(sockets_, kSubscribe));
  connected_ = clock_.now();
  replied_ = false;
  has_changes_ = false;
  problems_.clear();
  return {};
}

short VarlinkManagedOom::events() const {
  return POLLIN;
}

Result<void> VarlinkManagedOom::process() {
  for (const std::string& each : TRY(subscription_->receive())) {
    const auto reply = intake::read_managed_oom_reply(each);
    if (!reply) return reply.error().in("PID 1's reply");
    TRY(apply(*reply));
    if (!reply->continues) return error("PID 1 ended the subscription");
  }
  if (!replied_ && clock_.now() >= connected_ + reply_timeout_) {
    return error("PID 1 does not reply to the subscription");
  }
  return {};
}

// The first reply has all elements with the mode kill: what it lacks was switched off meanwhile.
Result<void> VarlinkManagedOom::apply(const intake::ManagedOomReply& reply) {
  if (!replied_) known_.clear();
  replied_ = true;
  has_changes_ = true;
  for (const rulesets::ManagedOomElement& each : reply.elements) {
    const Key key(each.path, each.property);
    if (each.kill) {
      known_.insert_or_assign(key, each);
    } else {
      known_.erase(key);
    }
  }
  if (known_.size() > kElementsMax) {
    return error(fmt::format("PID 1 reports more than {} cgroups", kElementsMax));
  }
  for (const std::string& each : reply.skipped) {
    if (problems_.size() < kProblemsMax) problems_.push_back(each);
  }
  return {};
}

std::optional<MonotonicTime> VarlinkManagedOom::ready_by() const {
  return replied_ ? std::nullopt : std::optional(connected_ + reply_timeout_);
}

Result<void> VarlinkManagedOom::refresh(bool, const std::function<bool()>&) {
  has_changes_ = false;
  return {};
}

std::vector<ReportedElement> VarlinkManagedOom::elements() const {
  std::vector<ReportedElement> found;
  for (const auto& [key, element] : known_) found.push_back({printable(element.path), element});
  return found;
}

std::vector<std::string> VarlinkManagedOom::problems() const {
  return problems_;
}

// Units of the system's systemd are below slices. A service below the manager of a user may have
// the same name.
bool is_systemd_oomd(std::string_view cgroup) {
  if (cgroup.starts_with('/')) cgroup.remove_prefix(1);
  while (!cgroup.empty()) {
    const std::string_view name = next_field(cgroup, '/');
    if (name == "systemd-oomd.service") return true;
    if (!name.ends_with(".slice")) return false;
  }
  return false;
}

}  // namespace forestall::daemon
