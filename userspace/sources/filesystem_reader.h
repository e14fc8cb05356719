// SPDX-License-Identifier: Apache-2.0
// Space and inodes of the filesystems that eviction signals name (nodefs, imagefs, containerfs;
// pkg/kubelet/eviction/api/types.go), on held directories: a read is one fstatfs() each and opens
// nothing.
//
// An open directory keeps its filesystem mounted: an unmount requires that the agent stops, as it
// does for kubelet and the runtime. fstatfs() of a filesystem backed by a server (NFS, FUSE, …)
// blocks on that server, and would block the loop, so those are not read. Their type is taken from
// the mount table before the first access. A network mount placed later over a directory already in
// use is not detected.
//
// Two places are on one filesystem if their st_dev is equal. Btrfs subvolumes have one each
// although they share their space. A node with images in their own subvolume is therefore treated
// as having a separate imagefs; the figures are correct.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "model/config.h"
#include "model/observation.h"

namespace forestall::sources {

class FilesystemReader {
 public:
  // `proc` is where the agent's own mount table is read. Opens nothing before refresh().
  FilesystemReader(FilesystemPlaces places, std::string proc);

  // Takes a new configuration. If the places differ, the next refresh() decides the layout again.
  void configure(const FilesystemPlaces& places);
  // Where the container runtime keeps images and writable layers. From the next refresh() on, it
  // fills in what the configuration leaves open. Empty: on kubelet's filesystem. Until this is
  // called, a configuration with a runtime and without imagefs has no layout and no imagefs.
  void discovered(std::string imagefs, std::string containerfs);

  // Opens places that are not open or whose directory changed (a filesystem was mounted on it).
  // Once all named places exist, the layout is decided and does not change. A missing place gets a
  // note unless it is the default one.
  void refresh(std::vector<SourceNote>& notes);

  // Fresh values of all filesystems.
  [[nodiscard]] FilesystemSamples read(MonotonicTime now, std::vector<SourceNote>& notes) const;
  // Fresh values of one filesystem; nullopt if it is missing or unreadable. Without a place of
  // their own, images use kubelet's filesystem and writable layers use that of the images.
  [[nodiscard]] std::optional<FilesystemSample> read(Filesystem filesystem, MonotonicTime now,
                                                     std::vector<SourceNote>& notes) const;
  // Whether it exists and can be read without blocking on a server.
  [[nodiscard]] bool has(Filesystem filesystem) const;
  [[nodiscard]] std::optional<FilesystemLayout> layout() const { return layout_; }

 private:
  struct FilesystemPlace {
    std::string path;  // empty: none configured
    bool expected = true;
    UniqueFd directory;  // O_PATH
    dev_t device = 0;
    ino_t inode = 0;
  };
  void name_places();
  void open(FilesystemPlace& place, std::vector<SourceNote>& notes);
  void decide_layout(std::vector<SourceNote>& notes);
  // The place that provides the figures of `filesystem`; null while that is unknown.
  [[nodiscard]] const FilesystemPlace* place_of(Filesystem filesystem) const;

  FilesystemPlaces places_;
  std::string proc_;
  bool runtime_answered_ = false;
  std::string runtime_imagefs_;
  std::string runtime_containerfs_;
  FilesystemPlace nodefs_;
  FilesystemPlace imagefs_;
  FilesystemPlace containerfs_;
  std::optional<FilesystemLayout> layout_;
};

}  // namespace forestall::sources
