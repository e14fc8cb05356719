// SPDX-License-Identifier: Apache-2.0
// What is done about workloads near a limit of their own besides evicting them, which is the
// ladder's: each crossing is told once, and those that are to be slowed are.
#pragma once

#include <memory>
#include <vector>

#include "actuators/brakes.h"
#include "exports/log.h"
#include "model/config.h"
#include "model/decision.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class OwnLimitWatch {
 public:
  explicit OwnLimitWatch(exports::Log& log) : log_(log) {}

  // Who may be slowed: null where there is no memory.high, or it must not be used; those are warned
  // about instead. Borrowed.
  void use(actuators::Brakes* brakes) { brakes_ = brakes; }

  // Tells who is near since the last look and who is not any more; slows down who is to be, unless
  // this is a dry run. Whether somebody is near who was not.
  bool look(const Config& config, const Decision& decision);

 private:
  struct Near {
    CgroupId cgroup;
    std::string path;
    Response response = Response::warn;
  };
  void tell(const Evidence& evidence, bool slowed);
  [[nodiscard]] bool may_slow(const Config& config, const Decision& decision,
                              const Evidence& evidence) const;

  exports::Log& log_;
  actuators::Brakes* brakes_ = nullptr;
  std::vector<Near> near_;
};

}  // namespace forestall::agent
