// SPDX-License-Identifier: Apache-2.0
// The rulesets in force: those of the configuration, and those of systemd's ManagedOOM properties.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/shared_value.h"
#include "daemon/managed_oom_watch.h"
#include "intake/config_file.h"
#include "model/config.h"
#include "model/ruleset.h"

namespace forestall::daemon {

// Thread rule: the loop's thread only.
class ManagedRules {
 public:
  // Of a configuration that is to come into force. An error: it must not.
  using Prepare = std::function<Result<void>(const Config&)>;

  // `watch` outlives it; null: managedOOM is off. `configured`: without those of systemd.
  ManagedRules(ManagedOomWatch* watch, SharedValue<std::vector<rulesets::Ruleset>> configured,
               Prepare prepare)
      : watch_(watch), configured_(std::move(configured)), prepare_(std::move(prepare)) {}

  // Completes the rulesets of a new configuration, and follows its settings. An error: nothing
  // changed.
  [[nodiscard]] Result<void> reload(intake::LoadedConfig& next);
  // Whether the rulesets in force changed. After an error they are as before, and those of systemd
  // are offered again.
  [[nodiscard]] Result<bool> take(Config& in_force);

 private:
  ManagedOomWatch* const watch_;
  SharedValue<std::vector<rulesets::Ruleset>> configured_;
  const Prepare prepare_;
};

}  // namespace forestall::daemon
