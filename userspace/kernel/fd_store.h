// SPDX-License-Identifier: Apache-2.0
// The file descriptor store of the service manager: FDSTORE=1 of sd_notify(3), and the descriptors
// that it passes to the next process of the unit (sd_listen_fds(3)).
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernel/guard_store.h"

namespace forestall::kernel {

class FdStore final : public GuardStore {
 public:
  // With the descriptors that this process was started with, except listening sockets: those are of
  // the unit's socket units. Takes all out of the environment, so a later call has none.
  static std::unique_ptr<FdStore> inherit();

  // Whether the service manager has passed any.
  [[nodiscard]] bool empty() const { return passed_.empty(); }
  // REQUIRES: no call before.
  [[nodiscard]] Result<std::vector<KeptObject>> kept() override;
  // The service manager takes it later, and refuses it silently if FileDescriptorStoreMax= does not
  // permit it. ENOSPC: systemd 254 or later, which passes that setting, would refuse it.
  [[nodiscard]] Result<void> keep(const std::string& name, int fd) override;
  [[nodiscard]] Result<void> drop(const std::string& name) override;
  [[nodiscard]] Result<std::vector<std::string>> names() const override;
  [[nodiscard]] StoreRoom room() const override { return room_; }
  [[nodiscard]] std::string place() const override;
  [[nodiscard]] UniqueFd turn() const override;

 private:
  FdStore() = default;
  StoreRoom room_;
  std::vector<KeptObject> passed_;
  std::set<std::string> names_;  // what the service manager has
  UniqueFd turn_;                // of its own: kept() gives the one that was passed away
};

}  // namespace forestall::kernel
