//! Pages of the key-value cache: who holds which, and how many are promised.
//!
//! The executor's pools are divided into pages of a fixed number of positions. A [`PageTable`] lists
//! the pages of one sequence; forks share pages, counted by reference, and the first to write to a
//! shared page copies it. A table is made with a capacity whose pages are *promised* at once, so that
//! running out is an error before work starts and never happens in the middle of it.
//!
//! The table of the sequence that ended last is *retained* until its pages are needed: a prompt that
//! begins with the same tokens takes it over and evaluates only the rest.

use std::{cell::RefCell, rc::Rc};

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
}

#[derive(Debug)]
struct Retained {
    ids: Vec<u32>,
    pages: Vec<u32>,
}

/// The pages of one sequence. Dropping it gives them back.
#[derive(Debug)]
pub struct PageTable {
    pool: PagePool,
    pages: Vec<u32>,
    /// Positions stored.
    length: usize,
    /// Positions it may come to hold.
    capacity: usize,
    /// Pages promised to it and not yet taken.
    promised: usize,
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
        Self(Rc::new(RefCell::new(Pool {
            page_size,
            // Taken from the end, so page 0 is the first.
            free: (0..pages as u32).rev().collect(),
            references: vec![0; pages],
            promised: 0,
            retained: None,
        })))
    }

    /// A table for `ids` and what follows them, `capacity` positions in all. It holds the keys and
    /// values of the longest beginning of `ids` that is retained, but never of the last id: there
    /// would be no scores to continue from.
    pub fn table(&self, ids: &[u32], capacity: usize) -> Result<PageTable> {
        let mut pool = self.0.borrow_mut();
        let mut pages = Vec::new();
        let mut length = 0;
        let wanted = capacity.div_ceil(pool.page_size);
        if let Some(retained) = &pool.retained {
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
        let promised = wanted - pages.len();
        pool.promised += promised;
        Ok(PageTable {
            pool: self.clone(),
            pages,
            length,
            capacity,
            promised,
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
        let wanted = wanted * self.page_size;
        Error::new(
            ErrorKind::ContextFull { limit },
            format!(
                "the cache has room for {limit} more positions and {wanted} are needed: end other generations, lower max_new_tokens, or load the model with a longer context"
            ),
        )
    }

    /// Takes a page that was promised.
    fn take(&mut self) -> Result<u32> {
        let page = self.free.pop();
        let page = page.ok_or_else(|| Error::internal("a promised page is missing"))?;
        self.promised -= 1;
        self.references[page as usize] = 1;
        Ok(page)
    }

    fn release(&mut self, page: u32) {
        let references = &mut self.references[page as usize];
        *references -= 1;
        if *references == 0 {
            self.free.push(page);
        }
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

impl PageTable {
    /// The pages of the positions in order, for a step's table.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Positions stored.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Makes room for `positions` more without storing them; returns the page to copy first, where the
    /// next position falls into a page that others share.
    pub fn prepare(&mut self, positions: usize) -> Result<Option<PageCopy>> {
        let end = self.length + positions;
        if end > self.capacity {
            let (length, capacity) = (self.length, self.capacity);
            return Err(Error::internal(format!(
                "{positions} positions after {length} exceed the {capacity} reserved"
            )));
        }
        let mut pool = self.pool.0.borrow_mut();
        let mut copy = None;
        // Only the page that the next position falls into can hold earlier positions.
        if let Some(page) = self.pages.get_mut(self.length / pool.page_size)
            && pool.references[*page as usize] > 1
            && positions > 0
        {
            let own = pool.take()?;
            self.promised -= 1;
            pool.release(*page);
            copy = Some(PageCopy {
                from: *page,
                to: own,
            });
            *page = own;
        }
        while self.pages.len() * pool.page_size < end {
            self.pages.push(pool.take()?);
            self.promised -= 1;
        }
        Ok(copy)
    }

    /// Counts `positions` as stored, after [`prepare`](Self::prepare) made room for them.
    pub fn advance(&mut self, positions: usize) {
        self.length += positions;
    }

    /// Forgets all positions from `length` on. Fails only where pages that others share must be
    /// replaced and there are none.
    pub fn rewind(&mut self, length: usize) -> Result<()> {
        self.length = self.length.min(length);
        let pool = self.pool.clone();
        let mut pool = pool.0.borrow_mut();
        let kept = self.length.div_ceil(pool.page_size);
        if kept < self.pages.len() {
            for page in self.pages.split_off(kept) {
                pool.release(page);
            }
        }
        self.renew_promise(&mut pool)
    }

    /// Another table with the same positions, for a sequence that goes on differently and may come to
    /// hold `capacity` positions. Pages are shared until one of the two writes to them.
    pub fn fork(&mut self, capacity: usize) -> Result<Self> {
        let handle = self.pool.clone();
        let mut pool = handle.0.borrow_mut();
        let pages = self.pages[..self.length.div_ceil(pool.page_size)].to_vec();
        for &page in &pages {
            pool.references[page as usize] += 1;
        }
        let mut fork = Self {
            pool: self.pool.clone(),
            pages,
            length: self.length,
            capacity,
            promised: 0,
        };
        let promised = self
            .renew_promise(&mut pool)
            .and_then(|()| fork.renew_promise(&mut pool));
        drop(pool);
        promised.map(|()| fork)
    }

    /// Promises this table all pages that it may still have to take.
    fn renew_promise(&mut self, pool: &mut Pool) -> Result<()> {
        let next = self.length / pool.page_size;
        let shared = self.pages.get(next);
        let copies = shared.is_some_and(|&page| pool.references[page as usize] > 1);
        let wanted =
            self.capacity.div_ceil(pool.page_size) - self.pages.len() + usize::from(copies);
        pool.make_available(wanted.saturating_sub(self.promised))?;
        pool.promised = pool.promised - self.promised + wanted;
        self.promised = wanted;
        Ok(())
    }

    /// Ends the sequence `ids`, and keeps its pages until they are needed or another sequence ends.
    pub fn retain(mut self, ids: &[u32]) {
        if self.length == 0 {
            return;
        }
        let mut pool = self.pool.0.borrow_mut();
        pool.drop_retained();
        let used = self.length.div_ceil(pool.page_size);
        let pages: Vec<u32> = self.pages.drain(..used).collect();
        // A shared page belongs to running sequences, which may outlive this one and write to it.
        if pages
            .iter()
            .all(|&page| pool.references[page as usize] == 1)
        {
            let ids = ids[..self.length.min(ids.len())].to_vec();
            pool.retained = Some(Retained { ids, pages });
        } else {
            pages.into_iter().for_each(|page| pool.release(page));
        }
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        let mut pool = self.pool.0.borrow_mut();
        pool.promised -= self.promised;
        for page in self.pages.drain(..) {
            pool.release(page);
        }
    }
}
