// SPDX-License-Identifier: Apache-2.0
#include "daemon/managed_rules.h"

namespace forestall::daemon {

Result<void> ManagedRules::reload(intake::LoadedConfig& next) {
  auto configured = next.config.rules;
  if (watch_ != nullptr && next.managed_oom) {
    next.config.rules = with_managed_rules(configured, watch_->in_force());
  }
  TRY(prepare_(next.config));
  configured_ = std::move(configured);
  if (watch_ != nullptr) watch_->follow(next.managed_oom);
  return {};
}

Result<bool> ManagedRules::take(Config& in_force) {
  if (watch_ == nullptr || !watch_->take()) return false;
  Config next = in_force;
  next.rules = with_managed_rules(configured_, watch_->in_force());
  if (const auto prepared = prepare_(next); !prepared) {
    watch_->refused();
    return prepared.error();
  }
  in_force = std::move(next);
  return true;
}

}  // namespace forestall::daemon
