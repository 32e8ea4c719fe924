//! Pages of the key-value cache: who holds which, and how many are promised.
//!
//! The executor's pools are divided into pages of a fixed number of positions. A [`PageTable`] lists
//! the pages of one sequence; forks share pages, counted by reference, and the first to write to a
//! shared page copies it. A table is made for a number of *branches*, itself and its forks, and the
//! pages that all of them may come to need are *promised* at once, so that running out is an error
//! before work starts and never happens in the middle of it.
//!
//! The table of the sequence that ended last is *retained* until its pages are needed: a prompt that
//! begins with the same tokens takes it over and evaluates only the rest.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::angles::LongAngles;
use crate::error::{Error, ErrorKind, Result};

/// All pages of an executor's cache. Clones are handles to the same pool.
#[derive(Debug, Clone)]
pub struct PagePool(Rc<RefCell<Pool>>);

#[derive(Debug)]
struct Pool {
    page_size: usize,
    /// Pages that nobody refers to.
    free: Vec<u32>,
    /// Tables that refer to each page.
    references: Vec<u32>,
    /// Pages promised to tables and not yet taken.
    promised: usize,
    retained: Option<Retained>,
    /// Where long sequences take other angles.
    long: Option<LongAngles>,
}

#[derive(Debug)]
struct Retained {
    ids: Vec<u32>,
    pages: Vec<u32>,
    /// The angles of its keys.
    angles: u32,
}

/// The pages of one sequence. Dropping it gives them back.
#[derive(Debug)]
pub struct PageTable {
    family: Rc<Family>,
    pages: Vec<u32>,
    /// Positions stored.
    length: usize,
    /// The row of the tables of angles that its position 0 takes.
    angles: u32,
    /// Another branch takes this one's place, and needs what was promised to it.
    replaced: bool,
}

/// A table and its forks, which share a promise.
#[derive(Debug)]
struct Family {
    pool: PagePool,
    /// Positions that each branch may come to hold.
    capacity: usize,
    /// Pages of a branch that no other branch can share.
    own: usize,
    /// Pages that the branches may hold together.
    total: Cell<usize>,
    /// Pages of these that they hold.
    used: Cell<usize>,
}

/// A page to copy before the next write: the executor's `copy_page(from, to)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCopy {
    /// The page that others still refer to.
    pub from: u32,
    /// The table's own copy.
    pub to: u32,
}

/// What a pool's pages are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Pages in all.
    pub pages: usize,
    /// Pages that running sequences refer to.
    pub used: usize,
    /// Pages promised to running sequences and not yet taken.
    pub promised: usize,
    /// Pages kept of a sequence that has ended; they count as free.
    pub retained: usize,
}

impl PagePool {
    /// A pool of `pages` free pages of `page_size` positions.
    pub fn new(pages: usize, page_size: usize) -> Self {
        Self::with_angles(pages, page_size, None)
    }

    /// The same for a model whose long sequences take other angles, if they do.
    pub fn with_angles(pages: usize, page_size: usize, long: Option<LongAngles>) -> Self {
        Self(Rc::new(RefCell::new(Pool {
            page_size,
            // Taken from the end, so page 0 is the first.
            free: (0..pages as u32).rev().collect(),
            references: vec![0; pages],
            promised: 0,
            retained: None,
            long,
        })))
    }

    /// A table for `ids` and what follows them, `capacity` positions in all, and for `branches` of it
    /// that go on differently after `ids`. It holds the keys and values of the longest beginning of
    /// `ids` that is retained, but never of the last id: there would be no scores to continue from.
    pub fn table(&self, ids: &[u32], capacity: usize, branches: usize) -> Result<PageTable> {
        let mut pool = self.0.borrow_mut();
        let mut pages = Vec::new();
        let mut length = 0;
        let each = capacity.div_ceil(pool.page_size);
        // A branch that becomes long evaluates its ids again, on pages of its own.
        let shared = match pool
            .long
            .is_some_and(|long| long.begin_within(ids.len(), capacity))
        {
            true => 0,
            false => (ids.len() / pool.page_size).min(each),
        };
        let angles = LongAngles::first_row(pool.long, ids.len());
        let own = each - shared;
        let wanted = shared.saturating_add(own.saturating_mul(branches));
        if let Some(retained) = pool.retained.as_ref().filter(|r| r.angles == angles) {
            let same = retained.ids.iter().zip(ids).take_while(|(a, b)| a == b);
            length = same.count().min(ids.len().saturating_sub(1));
        }
        if length > 0 {
            let keep = length.div_ceil(pool.page_size).min(wanted);
            if wanted - keep > pool.available() + pool.retained_pages() - keep {
                return Err(pool.exhausted(wanted));
            }
            pages = pool.retained.take().map(|r| r.pages).unwrap_or_default();
            for page in pages.split_off(keep) {
                pool.release(page);
            }
        } else {
            pool.make_available(wanted)?;
        }
        pool.promised += wanted - pages.len();
        Ok(PageTable {
            family: Rc::new(Family {
                pool: self.clone(),
                capacity,
                own,
                total: Cell::new(wanted),
                used: Cell::new(pages.len()),
            }),
            pages,
            length,
            angles,
            replaced: false,
        })
    }

    /// What the pages are doing.
    pub fn usage(&self) -> PoolUse {
        let pool = self.0.borrow();
        let retained = pool.retained_pages();
        PoolUse {
            pages: pool.references.len(),
            used: pool.references.len() - pool.free.len() - retained,
            promised: pool.promised,
            retained,
        }
    }

    /// Positions in a page.
    pub fn page_size(&self) -> usize {
        self.0.borrow().page_size
    }
}

impl Pool {
    /// Pages that are neither referred to nor promised.
    fn available(&self) -> usize {
        self.free.len() - self.promised
    }

    fn retained_pages(&self) -> usize {
        self.retained.as_ref().map_or(0, |r| r.pages.len())
    }

    fn exhausted(&self, wanted: usize) -> Error {
        let limit = (self.available() + self.retained_pages()) * self.page_size;
        let wanted = wanted.saturating_mul(self.page_size);
        Error::new(
            ErrorKind::ContextFull { limit },
            format!(
                "the cache has room for {limit} more positions and {wanted} are needed: end other generations, lower max_new_tokens or the number of beams or answers, or load the model with a longer context"
            ),
        )
    }

    /// Takes one reference from a page; whether that was the last.
    fn release(&mut self, page: u32) -> bool {
        let references = &mut self.references[page as usize];
        *references -= 1;
        let last = *references == 0;
        if last {
            self.free.push(page);
        }
        last
    }

    /// Gives up the retained pages if that is what it takes to promise `wanted` pages.
    fn make_available(&mut self, wanted: usize) -> Result<()> {
        if wanted > self.available() + self.retained_pages() {
            return Err(self.exhausted(wanted));
        }
        if wanted > self.available() {
            self.drop_retained();
        }
        Ok(())
    }

    fn drop_retained(&mut self) {
        for page in self.retained.take().map(|r| r.pages).unwrap_or_default() {
            self.release(page);
        }
    }
}

impl Family {
    /// Takes a page that was promised.
    fn take(&self, pool: &mut Pool) -> Result<u32> {
        if self.used == self.total {
            let total = self.total.get();
            return Err(Error::internal(format!(
                "more pages are needed than the {total} promised"
            )));
        }
        let page = pool.free.pop();
        let page = page.ok_or_else(|| Error::internal("a promised page is missing"))?;
        pool.promised -= 1;
        self.used.update(|used| used + 1);
        pool.references[page as usize] = 1;
        Ok(page)
    }

    /// Gives a page back; if nobody else holds it, it is promised again.
    fn release(&self, pool: &mut Pool, page: u32) {
        if pool.release(page) {
            pool.promised += 1;
            self.used.update(|used| used - 1);
        }
    }

    /// Takes back the promise of `pages` pages.
    fn shrink(&self, pool: &mut Pool, pages: usize) {
        let pages = pages.min(self.total.get() - self.used.get());
        pool.promised -= pages;
        self.total.update(|total| total - pages);
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.pool.0.borrow_mut().promised -= self.total.get() - self.used.get();
    }
}

impl PageTable {
    /// The pages of the positions in order, for a step's table.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Positions stored.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The row of the tables of angles that position 0 takes.
    pub fn angles(&self) -> u32 {
        self.angles
    }

    /// Forgets all positions if a sequence of `ids` ids takes other angles than those stored.
    pub fn turn(&mut self, ids: usize) {
        let angles = LongAngles::first_row(self.family.pool.0.borrow().long, ids);
        if angles != self.angles {
            self.rewind(0);
            self.angles = angles;
        }
    }

    /// Makes room for `positions` more without storing them; returns the page to copy first, where the
    /// next position falls into a page that others share.
    pub fn prepare(&mut self, positions: usize) -> Result<Option<PageCopy>> {
        let (end, capacity) = (self.length + positions, self.family.capacity);
        if end > capacity {
            let length = self.length;
            return Err(Error::internal(format!(
                "{positions} positions after {length} exceed the {capacity} reserved"
            )));
        }
        let mut pool = self.family.pool.0.borrow_mut();
        let mut copy = None;
        // Only the page that the next position falls into can hold earlier positions.
        if let Some(page) = self.pages.get_mut(self.length / pool.page_size)
            && pool.references[*page as usize] > 1
            && positions > 0
        {
            let own = self.family.take(&mut pool)?;
            self.family.release(&mut pool, *page);
            copy = Some(PageCopy {
                from: *page,
                to: own,
            });
            *page = own;
        }
        while self.pages.len() * pool.page_size < end {
            self.pages.push(self.family.take(&mut pool)?);
        }
        Ok(copy)
    }

    /// Counts `positions` as stored, after [`prepare`](Self::prepare) made room for them.
    pub fn advance(&mut self, positions: usize) {
        self.length += positions;
    }

    /// Forgets all positions from `length` on.
    pub fn rewind(&mut self, length: usize) {
        self.length = self.length.min(length);
        let mut pool = self.family.pool.0.borrow_mut();
        let kept = self.length.div_ceil(pool.page_size);
        if kept < self.pages.len() {
            for page in self.pages.split_off(kept) {
                self.family.release(&mut pool, page);
            }
        }
    }

    /// Another branch with the same positions, for a sequence that goes on differently. Pages are
    /// shared until one of the two writes to them.
    ///
    /// There are never more branches at once than the table was made for, and a branch that is rewound
    /// keeps at least the full pages of the ids that it was made for.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut pool = self.family.pool.0.borrow_mut();
        let pages = self.pages[..self.length.div_ceil(pool.page_size)].to_vec();
        for &page in &pages {
            pool.references[page as usize] += 1;
        }
        Self {
            family: self.family.clone(),
            pages,
            length: self.length,
            angles: self.angles,
            replaced: false,
        }
    }

    /// Ends this branch, so that another can be forked in its place.
    pub fn replace(mut self) {
        self.replaced = true;
    }

    /// Ends the sequence `ids`, and keeps its pages until they are needed or another sequence ends.
    pub fn retain(mut self, ids: &[u32]) {
        // Shared pages belong to branches that may outlive this one and write to them.
        if self.length == 0 || Rc::strong_count(&self.family) > 1 {
            return;
        }
        let mut pool = self.family.pool.0.borrow_mut();
        pool.drop_retained();
        let used = self.length.div_ceil(pool.page_size);
        let pages: Vec<u32> = self.pages.drain(..used).collect();
        // They are the family's no longer.
        self.family.total.update(|total| total - used);
        self.family.used.update(|held| held - used);
        let ids = ids[..self.length.min(ids.len())].to_vec();
        let angles = self.angles;
        pool.retained = Some(Retained { ids, pages, angles });
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        let mut pool = self.family.pool.0.borrow_mut();
        for page in self.pages.drain(..) {
            self.family.release(&mut pool, page);
        }
        if !self.replaced && Rc::strong_count(&self.family) > 1 {
            self.family.shrink(&mut pool, self.family.own);
        }
    }
}
