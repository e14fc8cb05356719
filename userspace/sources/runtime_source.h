// SPDX-License-Identifier: Apache-2.0
// What only the container runtime reports about the node's disks: where images and writable layers
// are, and how much each container has written. Queried every ten seconds (the runtime refreshes
// its figures no faster) on a thread of its own: a runtime under pressure may answer late or never.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/job_thread.h"
#include "base/result.h"
#include "clients/runtime.h"
#include "sources/observer.h"
#include "sources/source.h"

namespace forestall::sources {

class RuntimeSource final : public Source {
 public:
  // `observer` must outlive the source; it receives the results. Fails if `endpoint` is not a valid
  // endpoint. A missing server shows later, in problem().
  static Result<std::unique_ptr<RuntimeSource>> create(const std::string& endpoint,
                                                       clients::RuntimeOptions options,
                                                       Observer& observer);

  [[nodiscard]] Feature feature() const override { return Feature::poll; }
  [[nodiscard]] int fd() const override { return thread_->fd(); }
  // Has no lines. The notes give the reason while the runtime cannot be queried.
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  // Wakes the loop only when the filesystems are found for the first time, or have changed.
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;
  [[nodiscard]] std::optional<MonotonicTime> next_due() const override;

 private:
  struct Answer {
    std::optional<clients::RuntimeFilesystems> filesystems;
    std::optional<std::vector<clients::ContainerUsage>> containers;
    std::optional<Error> problem;
  };
  RuntimeSource(std::string endpoint, clients::RuntimeOptions options, Observer& observer);
  void query();
  void take(MonotonicTime now, std::vector<Wake>& wakes);

  const std::string endpoint_;
  const clients::RuntimeOptions options_;
  Observer& observer_;
  MonotonicTime due_;             // of the next query
  Answer answer_;                 // owned by the thread while it runs
  MonotonicTime images_due_;      // the thread's: of the next listing of images
  std::optional<Error> problem_;  // of the last answer
  MonotonicTime layers_at_;       // of the observer's writable layers
  std::string imagefs_;
  std::string containerfs_;
  std::unique_ptr<base::JobThread> thread_;  // last: its job uses all members above
};

}  // namespace forestall::sources
