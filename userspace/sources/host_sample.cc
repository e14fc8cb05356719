// SPDX-License-Identifier: Apache-2.0
#include "sources/host_sample.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <utility>

namespace forestall::sources {
namespace {

bool is_cancelled(int cancel_fd) {
  pollfd fd{cancel_fd, POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

// Cancelled is cancelled, even if the walk is faster than the first collect().
Result<void> walk_disks(Observer& observer, int cancel_fd) {
  const SystemClock clock;
  observer.request_disk_usage(clock.now());
  DiskWalker& walker = observer.disk_walker();
  for (;;) {
    if (is_cancelled(cancel_fd)) return Error{ECANCELED, "the disk walk was cancelled"};
    if (walker.collect(clock.now())) return {};
    std::array<pollfd, 2> fds{{{walker.fd(), POLLIN, 0}, {cancel_fd, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
      return errno_error("poll", "the disk walk");
    }
  }
}

}  // namespace

Result<Observation> sample_host(Observer& observer, const HostSampling& sampling) {
  auto notes = observer.refresh();
  if (sampling.disk) TRY(walk_disks(observer, sampling.cancel_fd));
  const MonotonicTime now = SystemClock().now();
  Observation observation = observer.sample_node(Wake{WakeSource::command, now, {}, {}}, now);
  observer.add_workloads(observation, {}, sampling.scoring);
  if (sampling.disk) observer.add_statistics(observation);
  for (SourceNote& note : notes) observation.notes.push_back(std::move(note));
  return observation;
}

}  // namespace forestall::sources
