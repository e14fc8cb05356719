// SPDX-License-Identifier: Apache-2.0
// What only the container runtime knows of the node's disks: where images and writable layers lie,
// and what each container has written. Asked every ten seconds (the runtime's own figures are no
// fresher), in a thread of its own, because a runtime under pressure answers late or never.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "clients/runtime.h"
#include "kernel/job_thread.h"
#include "sources/observer.h"
#include "sources/source.h"

namespace forestall::sources {

class RuntimeSource final : public Source {
 public:
  // `observer` must outlive the source, and is told what was found. An error when `endpoint` can be
  // none; whether anybody listens there shows later, in problem().
  static Result<std::unique_ptr<RuntimeSource>> create(const std::string& endpoint,
                                                       Observer& observer);

  [[nodiscard]] Feature feature() const override { return Feature::poll; }
  [[nodiscard]] int fd() const override { return thread_->fd(); }
  // It has no lines. The notes tell why the runtime could not be asked, for as long as that lasts.
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  // Wakes the loop only when the filesystems are found for the first time, or elsewhere.
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;
  [[nodiscard]] std::optional<MonotonicTime> next_look() const override;

 private:
  struct Answer {
    std::optional<clients::RuntimeFilesystems> filesystems;
    std::optional<std::vector<clients::ContainerUsage>> containers;
    std::optional<Error> problem;
  };
  RuntimeSource(std::string endpoint, Observer& observer);
  void ask();
  void take(MonotonicTime now, std::vector<Wake>& wakes);

  const std::string endpoint_;
  Observer& observer_;
  MonotonicTime due_;             // of the next question
  Answer answer_;                 // the thread's while it runs
  std::optional<Error> problem_;  // of the last answer
  MonotonicTime layers_at_;       // of the writable layers the observer has
  std::string imagefs_;
  std::string containerfs_;
  std::unique_ptr<kernel::JobThread> thread_;  // last: its job uses all of the above
};

}  // namespace forestall::sources
