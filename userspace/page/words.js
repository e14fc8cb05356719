// SPDX-License-Identifier: Apache-2.0
// What the page calls things, by the words the picture has for them.
'use strict';

const Words = (() => {
  const kKinds = {
    kill: { word: 'Killed', sign: '✕', worth: 3 },
    'would-kill': { word: 'Would have killed', sign: '?', worth: 2 },
    'kernel-oom': { word: 'Killed by the kernel', sign: '!', worth: 3 },
    reclaim: { word: 'Node-level reclaim', sign: '↻', worth: 1 },
    held: { word: 'Nobody had to go', sign: '·', worth: 0 },
    calm: { word: 'No threshold met', sign: '·', worth: 0 },
  };
  const kReasons = {
    'no-data': 'no configured signal could be computed',
    'no-threshold-met': 'enough is available again',
    'release-pending': 'memory on its way back will satisfy the threshold',
    'workloads-unread': 'the workloads are needed first',
    'no-candidates': 'no workload lies under what is short',
    'all-protected': 'every candidate is protected, empty or tried already',
    'threshold-met': 'a threshold was met',
    'local-storage-limit': 'pods are beyond a limit on local storage',
    'in-grace': 'only soft thresholds are met, within their grace period',
    'statistics-not-newer': 'the readings were acted upon already',
    'cleanup-pending': 'a victim of the same resource is not gone yet',
    'disk-usage-unread': 'what the pods occupy on disk is needed first',
    'node-reclaim': 'unused images and dead containers go first',
    'node-reclaim-sufficed': 'node-level reclaim left no threshold met',
    'own-limit-near': 'workloads are near a limit of their own',
    'guard-shot': 'the guard in the kernel shot the victim',
  };
  const kInaction = {
    'not-watched': 'no threshold is on what ran out',
    unread: 'its signal could not be computed',
    'below-threshold': 'the threshold was never met',
    'in-grace': 'a soft threshold was in its grace period',
    'dry-run': 'the agent decides but does not signal',
    'nobody-to-kill': 'the threshold was met, and nobody could be killed',
    'too-fast': 'the threshold was crossed, and the kernel was there first',
    acting: 'a kill was under way, its memory not yet back',
    ours: 'the kernel chose whom the agent had signalled already',
  };
  const kStages = {
    wake: 'seen → awake',
    observe: '→ read',
    decide: '→ decided',
    signal: '→ SIGKILL',
    exit: 'SIGKILL → gone',
    freed: 'SIGKILL → memory back',
  };

  return { kKinds, kReasons, kInaction, kStages };
})();
