// SPDX-License-Identifier: Apache-2.0
#include "sources/runtime_source.h"

#include <utility>

namespace forestall::sources {
namespace {

constexpr Duration kInterval = std::chrono::seconds(10);
// Between two listings of the images, for their ages: kubelet's interval
// (pkg/kubelet/images/image_gc_manager.go Start).
constexpr Duration kImagesInterval = std::chrono::minutes(5);
// Older figures must not cause an eviction.
constexpr Duration kLayersAgeMax = std::chrono::minutes(1);

WritableLayers layers_of(std::vector<clients::ContainerUsage> containers) {
  WritableLayers layers;
  for (clients::ContainerUsage& each : containers) {
    ContainerSample sample;
    sample.name = std::move(each.container);
    sample.rootfs = each.writable_layer;
    layers[each.pod_uid].push_back(std::move(sample));
  }
  return layers;
}

}  // namespace

RuntimeSource::RuntimeSource(std::string endpoint, clients::RuntimeOptions options,
                             Observer& observer)
    : endpoint_(std::move(endpoint)), options_(std::move(options)), observer_(observer) {}

Result<std::unique_ptr<RuntimeSource>> RuntimeSource::create(const std::string& endpoint,
                                                             clients::RuntimeOptions options,
                                                             Observer& observer) {
  TRY(clients::connect(endpoint));
  std::unique_ptr<RuntimeSource> made(new RuntimeSource(endpoint, std::move(options), observer));
  made->thread_ =
      TRY(base::JobThread::create("forestall-cri", [source = made.get()] { source->query(); }));
  return made;
}

// Runs on the thread.
void RuntimeSource::query() {
  answer_ = {};
  clients::RuntimeOptions options = options_;
  options.cancel_fd = thread_->stop_fd();
  auto runtime = clients::connect(endpoint_, options);
  if (!runtime.ok()) {
    answer_.problem = runtime.error();
    return;
  }
  auto filesystems = (*runtime)->filesystems();
  if (filesystems.ok()) {
    answer_.filesystems = std::move(*filesystems);
  } else {
    answer_.problem = filesystems.error();
  }
  auto containers = (*runtime)->container_stats();
  if (containers.ok()) {
    answer_.containers = std::move(*containers);
  } else {
    answer_.problem = containers.error();
  }
  const MonotonicTime now = SystemClock().now();
  if (now < images_due_) return;
  if (const auto noted = (*runtime)->note_images(); noted.ok()) {
    images_due_ = now + kImagesInterval;
  } else {
    answer_.problem = noted.error();
  }
}

void RuntimeSource::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  if (thread_->finish()) take(now, wakes);
  if (now >= due_ && thread_->start()) due_ = now + kInterval;
}

void RuntimeSource::take(MonotonicTime now, std::vector<Wake>& wakes) {
  problem_ = std::move(answer_.problem);
  if (answer_.containers) {
    layers_at_ = now;
    observer_.set_writable_layers(layers_of(std::move(*answer_.containers)));
  } else if (now - layers_at_ > kLayersAgeMax) {
    observer_.set_writable_layers({});  // unknown is better than outdated
  }
  if (!answer_.filesystems) return;
  std::string imagefs = std::move(answer_.filesystems->imagefs.directory);
  std::string containerfs = std::move(answer_.filesystems->containerfs.directory);
  if (imagefs == imagefs_ && containerfs == containerfs_) return;
  imagefs_ = std::move(imagefs);
  containerfs_ = std::move(containerfs);
  observer_.filesystems().discovered(imagefs_, containerfs_);
  // This wake triggers the refresh that opens the new places.
  wakes.push_back({WakeSource::workload_change, now, {}, {}});
}

Result<std::vector<std::string>> RuntimeSource::arm(std::span<const Line>, MonotonicTime) {
  std::vector<std::string> notes;
  if (problem_) notes.push_back(endpoint_ + ": " + problem_->text());
  return notes;
}

std::optional<MonotonicTime> RuntimeSource::next_due() const {
  if (thread_->running()) return std::nullopt;
  return due_;
}

}  // namespace forestall::sources
